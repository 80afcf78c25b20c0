"""One page for people who will not run anything: what was released, the answer, how far to trust
it, how to check it.

`write_report` writes it. `released`, `answer`, `pictures`, `verdict` and `citing` make its
sections, `html` the elements of a page, and `style` is its CSS. How far to trust the answer is
decided in `assessment`.
"""

from noisewise.reports.page import write_report

__all__ = ["write_report"]
