"""Text that a stranger may have written, on its way to a terminal."""

from __future__ import annotations

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
