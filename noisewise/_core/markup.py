"""HTML elements. All text that enters a page or a notebook is escaped here, and nowhere else."""

from __future__ import annotations

import html
from collections.abc import Iterable
from typing import Any


class Markup(str):
    """Text that is HTML already."""

    __slots__ = ()


def escape(text: Any) -> Markup:
    """Text as HTML; `Markup` stays as it is.

    >>> escape("a < b"), escape(Markup("<br>"))
    ('a &lt; b', '<br>')
    """
    return text if isinstance(text, Markup) else Markup(html.escape(str(text), quote=True))


def element(tag: str, *content: Any, **attributes: Any) -> Markup:
    """One element around escaped content.

    Args:
        tag: Its name, such as "p".
        content: Text or `Markup`.
        attributes: `class_` stands for class, `aria_label` for aria-label; None leaves one out.

    >>> element("p", "a < b", class_="note")
    '<p class="note">a &lt; b</p>'
    """
    given = "".join(
        f' {name.rstrip("_").replace("_", "-")}="{html.escape(str(value), quote=True)}"'
        for name, value in attributes.items()
        if value is not None
    )
    return Markup(f"<{tag}{given}>{''.join(map(escape, content))}</{tag}>")


def join(*parts: Any) -> Markup:
    """Parts one after the other."""
    return Markup("\n".join(map(escape, parts)))


def bullets(items: Iterable[Any], **attributes: Any) -> Markup:
    """A list, or nothing if there are no items."""
    made = [element("li", item) for item in items]
    return element("ul", *made, **attributes) if made else Markup("")
