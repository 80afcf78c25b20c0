"""The few elements that a page is made of."""

from __future__ import annotations

import base64
import io
import math
from collections.abc import Iterable, Sequence
from typing import Any

from noisewise._core.text import Markup, element, join

_DPI = 200
"""Pixels per inch of figures: twice those of a screen, so that type is sharp on good ones."""
_CSS_PER_INCH = 96
"""Pixels per inch in CSS, by its standard."""
_SMALLEST = 0.72
"""Share of their size to which pictures shrink on narrow screens; below it they scroll. Type of 10
points is then 9.6 px high, which can still be read."""


def paragraphs(*texts: Any) -> Markup:
    """One paragraph for each text that is not empty."""
    return join(*(element("p", text) for text in texts if text))


def section(identity: str, title: str, *content: Any) -> Markup:
    """A section with a heading."""
    heading = element("h2", title, id=f"{identity}-title")
    return element(
        "section", heading, "\n", *content, id=identity, aria_labelledby=f"{identity}-title"
    )


def table(caption: str, columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> Markup:
    """A table in a box of its own that scrolls sideways.

    Args:
        caption: Shown above the table, and read out by screen readers.
        columns: Headings.
        rows: Cells, the first of which names the row.
    """
    head = element("tr", *(element("th", column, scope="col") for column in columns))
    body = [
        element(
            "tr", element("th", row[0], scope="row"), *(element("td", cell) for cell in row[1:])
        )
        for row in rows
    ]
    made = element("table", element("thead", head), element("tbody", *body), aria_label=caption)
    box = element("div", made, class_="scroll", tabindex="0", role="region", aria_label=caption)
    return element("figure", element("figcaption", caption), box)


def facts(rows: Iterable[tuple[Any, Any]]) -> Markup:
    """Names with what they stand for."""
    return element("dl", *(join(element("dt", name), element("dd", text)) for name, text in rows))


def picture(figure: Any, alt: str, *, small: bool = False) -> Markup:
    """A matplotlib figure as an image inside the page; the figure is closed.

    Args:
        figure: The figure.
        alt: What it shows, in words, for readers who cannot see it.
        small: Whether it stands in a row of others, and may shrink without limit.
    """
    import matplotlib.pyplot as plt

    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=_DPI, metadata={"Software": None}, facecolor="white")
    plt.close(figure)
    content = buffer.getvalue()
    pixels = int.from_bytes(content[16:20]), int.from_bytes(content[20:24])
    width, height = (round(side * _CSS_PER_INCH / _DPI) for side in pixels)
    data = base64.b64encode(content).decode()
    least = None if small else f"min-width:{math.floor(_SMALLEST * width)}px"
    size = {"width": width, "height": height, "style": least}
    image = Markup(
        element("img", src=f"data:image/png;base64,{data}", alt=alt, **size).removesuffix("</img>")
    )
    return element("div", image, class_="panel" if small else "scroll")


def captioned(caption: str, *pictures: Markup) -> Markup:
    """Pictures with a common caption."""
    row = element("div", *pictures, class_="panels") if len(pictures) > 1 else join(*pictures)
    return element("figure", row, element("figcaption", caption))


def number(value: Any, sd: float | None = None) -> str:
    """A number for people: as many decimals as the standard deviation `sd` has two digits, else
    four digits.

    >>> number(-2.63481, 0.2), number(12345.6), number(0.000123), number(float("nan"))
    ('-2.63', '12,346', '0.000123', 'unknown')
    """
    value = float(value)
    if not math.isfinite(value):
        return "unknown" if math.isnan(value) else "infinite" if value > 0 else "minus infinity"
    if sd is None or not math.isfinite(sd) or sd <= 0.0:
        return f"{value:,.0f}" if 1000 <= abs(value) < 1e9 else f"{value:.4g}"
    decimals = 1 - math.floor(math.log10(sd))
    if decimals > 8 or abs(value) >= 1e9:
        return f"{value:.4g}"
    text = f"{value:,.{max(0, decimals)}f}"
    return text if text.strip("-0.,") else text.removeprefix("-")
