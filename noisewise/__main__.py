"""`python -m noisewise` is `noisewise`."""

from noisewise.cli import main

if __name__ == "__main__":
    main()
