"""The command line: one module per command, nothing heavy imported before a command needs it."""


def main() -> None:
    """Run the command line on the arguments of this process."""
    from noisewise.cli.app import app

    app(prog_name="noisewise")
