"""Tables in Markdown."""

from collections.abc import Iterable, Sequence


def markdown_table(header: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    r"""A Markdown table; bars inside cells are escaped.

    >>> print(markdown_table(["n", "loss"], [[1, "|x|"]]))
    | n | loss |
    |---|---|
    | 1 | \|x\| |
    """
    lines = [list(header), *([_cell(value) for value in row] for row in rows)]
    text = ["| " + " | ".join(line) + " |" for line in lines]
    return "\n".join([text[0], "|" + "---|" * len(header), *text[1:]])


def _cell(value: object) -> str:
    return str(value).replace("|", "\\|").replace("\n", " ")
