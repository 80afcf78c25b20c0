"""What there is, read from the sources without importing them: listing and completing cost next to
nothing.
"""

from __future__ import annotations

import ast
import dataclasses
import functools
from collections.abc import Iterator
from pathlib import Path

from noisewise.cli.exits import did_you_mean
from noisewise.errors import InvalidInputError

RELEASED = {
    "ClampedMean": "mean",
    "Median": "median",
    "Histogram": "histogram",
    "ContingencyTable": "contingency-table",
    "CategoryProportions": "category-proportions",
    "RegressionMoments": "regression-moments",
    "InfectionCurve": "infection-curve",
}
"""What `noisewise release --query` calls the queries that it can release."""

_PACKAGE = Path(__file__).parent.parent


@dataclasses.dataclass(frozen=True)
class Item:
    """A problem, method, mechanism or query: what the command line calls it, its Python name, and
    one line about it.
    """

    slug: str
    name: str
    line: str


@functools.cache
def problems() -> tuple[Item, ...]:
    """The ready problems, one for each outbreak.

    >>> [item.slug for item in problems() if not item.slug.startswith("outbreak")]
    ['gaussian-mean', 'linear-regression', 'log-linear', 'sir']
    """
    return tuple(
        item
        for stem, name in _exported("problems")
        if name[0].islower()
        for item in _problem(stem, name)
    )


@functools.cache
def methods() -> tuple[Item, ...]:
    """The inference methods, by slug.

    >>> find("method", "sppe", methods()).name
    'PrivatePosteriorEstimation'
    """
    found = []
    for path in sorted((_PACKAGE / "inference").rglob("[a-z]*.py")):
        tree = _tree(path)
        found += [
            Item(slug, kind.name, _line(tree))
            for kind in _classes(tree)
            for slug in _constants(kind, "slug")
        ]
    return tuple(sorted(found, key=lambda item: item.slug))


@functools.cache
def mechanisms() -> tuple[Item, ...]:
    """The mechanisms, by class name."""
    return _descendants("mechanisms", "AbstractMechanism")


@functools.cache
def queries() -> tuple[Item, ...]:
    """The queries, those first that `noisewise release` offers, under its name for them."""
    found = _descendants("queries", "AbstractQuery")
    named = [dataclasses.replace(item, slug=RELEASED.get(item.name, item.name)) for item in found]
    return tuple(sorted(named, key=lambda item: item.name not in RELEASED))


def find(kind: str, given: str, items: tuple[Item, ...]) -> Item:
    """The item that is called so; `_` and `:` stand for `-`."""
    slug = slug_of(given)
    for item in items:
        if item.slug == slug:
            return item
    known = [item.slug for item in items]
    raise InvalidInputError(f"There is no {kind} {given!r}: {did_you_mean(slug, known)}")


def slug_of(given: str) -> str:
    """The one way to write a name that may be written in several.

    >>> slug_of("Gaussian_Mean"), slug_of("outbreak:influenza")
    ('gaussian-mean', 'outbreak-influenza')
    """
    return given.strip().lower().replace("_", "-").replace(":", "-")


# Reading sources ----------------------------------------------------------------------------------


def _problem(stem: str, name: str) -> Iterator[Item]:
    tree = _tree(_PACKAGE / "problems" / f"{stem}.py")
    variants = next(_constants(tree, "NAMES"), None)
    if variants is None:
        yield Item(name.replace("_", "-"), name, _line(tree))
        return
    for variant in variants:
        head = (_PACKAGE / "problems" / "data" / f"{variant}.csv").read_text().splitlines()
        title = next(
            line.removeprefix("# title: ") for line in head if line.startswith("# title: ")
        )
        yield Item(f"{name}-{variant}", f'{name}("{variant}")', f"{title}.")


def _descendants(folder: str, root: str) -> tuple[Item, ...]:
    trees = {path.stem: _tree(path) for path in sorted((_PACKAGE / folder).glob("[a-z]*.py"))}
    bases = {
        kind.name: [ast.unparse(base) for base in kind.bases]
        for tree in trees.values()
        for kind in _classes(tree)
    }

    def descends(name: str) -> bool:
        return name == root or any(descends(base) for base in bases.get(name, ()))

    exported = [
        (stem, name)
        for stem, name in _exported(folder)
        if not name.startswith("Abstract") and descends(name)
    ]
    return tuple(
        Item(name, name, _line(trees[stem]))
        for stem, name in sorted(exported, key=lambda pair: pair[1])
    )


def _exported(folder: str) -> list[tuple[str, str]]:
    """(module, name) of what the package's `__init__` imports from its own modules."""
    nodes = [
        node
        for node in _tree(_PACKAGE / folder / "__init__.py").body
        if isinstance(node, ast.ImportFrom)
    ]
    own = [node for node in nodes if (node.module or "").startswith(f"noisewise.{folder}.")]
    return [
        ((node.module or "").rsplit(".", 1)[1], alias.name) for node in own for alias in node.names
    ]


@functools.cache
def _tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


def _line(tree: ast.Module) -> str:
    return (ast.get_docstring(tree) or "").split("\n\n")[0].replace("\n", " ")


def _classes(tree: ast.Module) -> list[ast.ClassDef]:
    return [node for node in tree.body if isinstance(node, ast.ClassDef)]


def _constants(node: ast.Module | ast.ClassDef, name: str) -> Iterator[str]:
    """The literal values that `name` is given in the body of a module or class."""
    for statement in node.body:
        if not isinstance(statement, (ast.AnnAssign, ast.Assign)) or statement.value is None:
            continue
        targets = [statement.target] if isinstance(statement, ast.AnnAssign) else statement.targets
        if any(isinstance(target, ast.Name) and target.id == name for target in targets):
            yield ast.literal_eval(statement.value)
