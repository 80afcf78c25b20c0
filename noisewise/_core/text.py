"""Text on its way to a terminal or a page: what commands either is removed or escaped here."""

from __future__ import annotations

import html
from collections.abc import Iterable
from typing import Any

_KEPT = "\n\t"
_C0, _DEL_AND_C1 = range(0x20), range(0x7F, 0xA0)  # control characters, by their code
_BIDI = (0x061C, 0x200E, 0x200F, *range(0x202A, 0x202F), *range(0x2066, 0x206A))
"""What changes the direction in which the text after it is read."""
_SURROGATES = range(0xD800, 0xE000)
"""Halves of characters, which no terminal can be sent."""
_REMOVED = dict.fromkeys(
    number
    for part in (_C0, _DEL_AND_C1, _BIDI, _SURROGATES)
    for number in part
    if chr(number) not in _KEPT
)


def printable(text: str) -> str:
    r"""`text` without characters that command a terminal or hide what is written; new lines and
    tabs stay.
    >>> printable("a\x1b[2Jb\x9b1m\u202ec\nd")
    'a[2Jb1mc\nd'
    """
    return text if text.isprintable() else text.translate(_REMOVED)


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
