"""One page for people who will not run anything: what was released, the answer, how far to trust
it, how to check it.

`write_report` writes it. `released`, `answer`, `pictures`, `verdict` and `citing` make its
sections, `html` holds the few elements that pages are made of, `look` how they look.
"""

from noisewise.reports.page import write_report
from noisewise.reports.verdict import Assessment, assess

__all__ = ["Assessment", "assess", "write_report"]
