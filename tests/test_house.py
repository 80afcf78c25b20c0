"""Rules of the house that can be read off the sources: each is shown to catch a planted breach."""

import ast
import collections
import re
from pathlib import Path

import pytest

import noisewise

PACKAGE = Path(noisewise.__file__).parent
SOURCES = {path: path.read_text() for path in sorted(PACKAGE.rglob("*.py"))}
COMMON = ("_core", "_compile")
CATALOGUES = {"cli", "mechanisms", "problems", "queries", "simulators"}
MOST_MODULES = 15
CONSTANT = re.compile(r"_?[A-Z][A-Z0-9_]*")


def private_imports(folder, source):
    """Modules below another folder's private name, which `folder` (its parts) imports."""
    for node in ast.walk(ast.parse(source)):
        if not isinstance(node, ast.ImportFrom) or not (node.module or "").startswith("noisewise."):
            continue
        for target in [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]:
            parts = target.split(".")[1:]
            is_module = (PACKAGE.joinpath(*parts).with_suffix(".py")).exists()
            if not is_module or parts[0] in COMMON:
                continue
            hidden = [i for i, part in enumerate(parts) if part.startswith("_")]
            if hidden and tuple(parts[: hidden[0]]) != tuple(folder[: hidden[0]]):
                yield target


def concrete_classes(folder):
    """Names of the classes of a room that are no bases."""
    bases = {"base", "guarantees", "supports", "point_sets", "domains", "law"}
    trees = (
        ast.parse(SOURCES[path])
        for path in SOURCES
        if path.parent == PACKAGE / folder and path.stem not in bases
    )
    classes = (node for tree in trees for node in tree.body if isinstance(node, ast.ClassDef))
    return {node.name for node in classes if not node.name.startswith(("Abstract", "_"))}


def questions_of_class(source, names):
    """Calls of `isinstance` or `issubclass` that ask for one of the names."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Call) and getattr(node.func, "id", "") in (
            "isinstance",
            "issubclass",
        ):
            asked = {
                getattr(part, "attr", getattr(part, "id", "")) for part in ast.walk(node.args[1])
            }
            yield from asked & names


def unexplained_constants(source):
    """Numeric constants of a module without a sentence below or a comment beside them."""
    lines, body = source.splitlines(), ast.parse(source).body
    for node, after in zip(body, [*body[1:], None], strict=True):
        if not isinstance(node, ast.Assign) or not isinstance(node.value, ast.Constant):
            continue
        if isinstance(node.value.value, bool) or not isinstance(node.value.value, (int, float)):
            continue
        names = [target.id for target in node.targets if isinstance(target, ast.Name)]
        said = (
            isinstance(after, ast.Expr)
            and isinstance(after.value, ast.Constant)
            and isinstance(after.value.value, str)
        )
        beside = "#" in lines[node.lineno - 1] or lines[node.lineno - 2].lstrip().startswith("#")
        if not said and not beside:
            yield from filter(CONSTANT.fullmatch, names)


def rooms(paths):
    """How many modules each folder holds."""
    return collections.Counter(path.parent for path in paths if path.name != "__init__.py")


def test_no_private_module_is_imported_from_another_folder():
    found = {
        str(path): list(private_imports(path.relative_to(PACKAGE).parts[:-1], source))
        for path, source in SOURCES.items()
    }
    assert {path: names for path, names in found.items() if names} == {}


def test_a_private_import_is_caught():
    source = "from noisewise.simulators._worker import serve"
    assert list(private_imports(("inference",), source)) == ["noisewise.simulators._worker"]
    assert list(private_imports(("simulators",), source)) == []


@pytest.mark.parametrize("folder", ["mechanisms", "queries"])
def test_nothing_outside_asks_which_concrete_class_it_has(folder):
    names = concrete_classes(folder)
    found = {
        str(path): set(questions_of_class(source, names))
        for path, source in SOURCES.items()
        if PACKAGE / folder not in path.parents
    }
    assert len(names) > 5
    assert {path: asked for path, asked in found.items() if asked} == {}
    assert set(questions_of_class(f"isinstance(x, (int, m.{min(names)}))", names)) == {min(names)}


def test_every_numeric_constant_says_why():
    found = {str(path): list(unexplained_constants(source)) for path, source in SOURCES.items()}
    assert {path: names for path, names in found.items() if names} == {}
    assert list(
        unexplained_constants('"""A module."""\n\n_FEW = 3\n_MANY = 4\n"""Draws: why."""\n')
    ) == ["_FEW"]


def test_rooms_are_small_and_modules_are_read_in_one_sitting():
    crowded = {str(folder): num for folder, num in rooms(SOURCES).items() if num > MOST_MODULES}
    assert {Path(folder).name for folder in crowded} <= CATALOGUES
    assert rooms([PACKAGE / "a" / f"{i}.py" for i in range(16)])[PACKAGE / "a"] > MOST_MODULES
    long = {str(path): len(source.splitlines()) for path, source in SOURCES.items()}
    assert {path: num for path, num in long.items() if num > 400} == {}


def test_type_checkers_know_every_public_name():
    tree = ast.parse(SOURCES[PACKAGE / "__init__.py"])
    block = next(node for node in tree.body if isinstance(node, ast.If))
    known = {alias.name for node in block.body for alias in node.names}
    assert known == set(noisewise.__all__)
