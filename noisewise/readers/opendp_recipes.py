"""OpenDP measurements as `dp.serialize` writes them: trees of constructors, read as data.

A node has the name of a constructor (`__function__`) and its arguments (`__kwargs__`). Only what
decides the noise is looked at: the constructor of the noise, its scale, and the type of its
numbers, which may be said at the far end of a chain.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from typing import Any

from noisewise.errors import FileFormatError, InvalidInputError
from noisewise.readers.files import one_of
from noisewise.readers.laws import Law

MAX_DEPTH = 400
"""Levels of nesting: a chain of ten transformations has a hundred."""
_LONGEST_CHAIN = 100
"""Links of a chain that are followed."""
_NOISE = {
    "make_laplace": "laplace",
    "make_geometric": "laplace",
    "make_laplace_threshold": "laplace",
    "make_gaussian": "gaussian",
    "make_gaussian_threshold": "gaussian",
    "make_noise": None,
    "make_noise_threshold": None,
}
"""Constructors of noise; None where the measure of privacy says which."""
_MEASURES = {"max_divergence": "laplace", "zero_concentrated_divergence": "gaussian"}
_WRAPPERS = {
    "make_chain_mt": "measurement1",
    "make_pureDP_to_zCDP": "measurement",
    "make_zCDP_to_approxDP": "measurement",
    "make_fixed_approxDP_to_approxDP": "measurement",
    "make_approximate": "measurement",
    "make_fix_delta": "measurement",
}
"""Constructors around a measurement that leave its outputs as they are, and where it stands."""
_DOMAINS_OF = {
    "transformation_output_domain": "output",
    "transformation_input_domain": "input",
    "measurement_input_domain": "input",
}
_SAME = ("make_clamp", "make_identity", "make_resize", "make_ordered_random", "make_unordered")
"""Transformations of vectors into vectors of the same numbers."""
_ADDED = ("make_sum", "make_mean", "make_variance")
"""Transformations of vectors into one of their numbers."""
_TYPED = {
    "make_count": "TO",
    "make_count_distinct": "TO",
    "make_count_by": "TV",
    "make_count_by_categories": "TOA",
    "make_cast_default": "TOA",
}
"""Transformations that name the type of their numbers, and under which argument."""
_RELATIONS = {
    "symmetric_distance": "add-remove",
    "insert_delete_distance": "add-remove",
    "change_one_distance": "replace-one",
    "hamming_distance": "replace-one",
}
FLOATS = ("f64", "f32")
"""Types of real numbers."""
ATOMS = (*FLOATS, *(f"{sign}{bits}" for sign in "iu" for bits in (8, 16, 32, 64, 128, "size")))
"""Types of numbers."""
_FEW_BITS = 16
"""Bits of a type whose ends noisy numbers may reach at both sides; of larger ones, only 0."""
_FINEST = 2.0**-20
"""Of the scale: a grid this fine cannot be told from none with a million draws."""


@dataclasses.dataclass(frozen=True)
class Recipe:
    """What a measurement says of its noise.

    Attributes:
        kind: "laplace" or "gaussian".
        scale: Its scale.
        atom: The type of its numbers, such as "i64"; None where it cannot be seen.
        size: The number of entries, where it is fixed.
        maps: Whether it takes and gives numbers by key, and leaves out those below a threshold.
        threshold: The threshold.
        grid: The exponent of the grid that real numbers lie on; None for the finest.
        ends: Where geometric noise is cut off.
        relation: "add-remove" or "replace-one"; None where it cannot be seen.
        contributions: How many records of the data neighbours differ in, where it is said.
    """

    kind: str
    scale: float
    atom: str | None = None
    size: int | None = None
    maps: bool = False
    threshold: float | None = None
    grid: int | None = None
    ends: tuple[float, float] | None = None
    relation: str | None = None
    contributions: int | None = None

    def law(self, atom: str | None, sensitivity: Any) -> Law:
        """The law of its noise.

        Args:
            atom: The type of numbers, where the recipe does not say it.
            sensitivity: The largest change between neighbours.

        Raises:
            InvalidInputError: If the type is not known, or another one than in the recipe.
            FileFormatError: If real numbers lie on a coarse grid.
        """
        if atom is not None:
            one_of(atom, ATOMS, "The type of numbers (--atom, atom=)")
        if self.atom is not None and atom not in (None, self.atom):
            raise InvalidInputError(
                f"The file says that numbers are of type {self.atom}: leave out atom={atom!r}."
            )
        known = self.atom or atom
        if known is None:
            raise InvalidInputError(
                "The type of the numbers cannot be seen in this file: give --atom f64 for real"
                " numbers, --atom i64 for whole ones, --atom u32 for counts without a sign (atom=)."
            )
        if known in FLOATS:
            if self.grid is not None and (self.grid > 0 or 2.0**self.grid > _FINEST * self.scale):
                raise FileFormatError(
                    f"The noise is on a grid of step 2^{self.grid} (k), too coarse for its scale"
                    f" {self.scale:g} to be called continuous: no mechanism here has this law."
                )
            return Law(self.kind, self.scale, sensitivity, self.threshold)
        low, high = _ends(known)
        if self.ends is not None:
            low = max(self.ends[0], -float("inf") if low is None else low)
            high = min(self.ends[1], float("inf") if high is None else high)
        return Law(
            f"discrete-{self.kind}",
            self.scale,
            sensitivity,
            self.threshold,
            lowest=low,
            highest=high,
        )


def recipe_of(tree: Any) -> Recipe:
    """What a measurement says of its noise.

    Args:
        tree: What `dp.serialize` wrote, parsed.

    Raises:
        FileFormatError: If it is no measurement, or its noise is not known here.
    """
    found = tree
    for _ in range(_LONGEST_CHAIN):
        name, given = _node(found)
        if name not in _WRAPPERS:
            break
        found = given.get(_WRAPPERS[name])
    if name not in _NOISE:
        raise FileFormatError(
            f"The measurement ends with {name!r}, whose noise is not known here: expected one of"
            f" {', '.join(_NOISE)}, alone or at the end of a chain."
        )
    atom, size, maps = _numbers(given.get("input_domain"))
    relation, contributions = _neighbours(tree)
    threshold = _real(given.get("threshold"), "threshold") if "_threshold" in name else None
    if threshold is not None and threshold < 0.0:
        raise FileFormatError("A threshold below 0 leaves out large numbers: no mechanism has it.")
    return Recipe(
        kind=_NOISE[name] or _kind_of_measure(given.get("output_measure")),
        scale=_positive(given.get("scale"), "scale"),
        atom=atom,
        size=size,
        maps=maps or name.endswith("_threshold"),
        threshold=threshold,
        grid=_whole(given.get("k"), "k"),
        ends=_bounds(given.get("bounds")),
        relation=relation,
        contributions=contributions,
    )


def _node(tree: Any) -> tuple[str, dict[str, Any]]:
    """The constructor and the arguments of a node."""
    if isinstance(tree, dict):
        name, given = tree.get("__function__"), tree.get("__kwargs__")
        if isinstance(name, str) and isinstance(given, dict):
            return name, given
    raise FileFormatError(
        'It is not a measurement of OpenDP: expected {"__function__": ..., "__kwargs__": ...}, as'
        " dp.serialize(measurement) writes it."
    )


def _numbers(domain: Any) -> tuple[str | None, int | None, bool]:
    """The type of the numbers in a domain, how many there are, and whether they have keys. The
    search ends with None where something is not known.
    """
    size: int | None = None
    maps = False
    for _ in range(_LONGEST_CHAIN):
        if domain is None:
            return None, size, maps
        name, given = _node(domain)
        if name == "atom_domain":
            return _atom(given.get("T")), size, maps
        if name == "vector_domain":
            size, domain = _whole(given.get("size"), "size"), given.get("atom_domain")
        elif name == "map_domain":
            maps, domain = True, given.get("value_domain")
        elif name in _DOMAINS_OF:
            found = _through(given.get("this"), _DOMAINS_OF[name])
            if isinstance(found, str):
                return _atom(found), size, maps
            domain, size = found, None
        else:
            return None, size, maps
    return None, size, maps


def _through(this: Any, end: str) -> Any:
    """The domain at one end of a transformation or measurement; a text for the type of numbers
    alone; None if it is not known.
    """
    for _ in range(_LONGEST_CHAIN):
        name, given = _node(this)
        if name in ("make_chain_tt", "make_chain_mt"):
            first = "transformation1" if name == "make_chain_tt" else "measurement1"
            this = given.get(first if end == "output" else "transformation0")
        elif end == "output" and name in _TYPED:
            return given.get(_TYPED[name])
        elif end == "input" or name in (*_SAME, *_ADDED):
            return given.get("input_domain")
        else:
            return None
    return None


def _neighbours(tree: Any) -> tuple[str | None, int | None]:
    """The relation of neighbours of the data at the start of a chain, and in how many records they
    differ where a Context says it.
    """
    relations: set[str] = set()
    contributions: set[int | None] = set()
    for name, given in _nodes(tree):
        if name in _RELATIONS:
            relations.add(_RELATIONS[name])
        if name == "make_adaptive_composition":
            found = given.get("d_in")
            certain = isinstance(found, int) and not isinstance(found, bool) and found > 0
            contributions.add(found if certain else None)
    relation = relations.pop() if len(relations) == 1 else None
    return relation, contributions.pop() if len(contributions) == 1 else None


def _nodes(tree: Any) -> Iterator[tuple[str, dict[str, Any]]]:
    level = [tree]
    while level:
        item = level.pop()
        if isinstance(item, dict):
            name, given = item.get("__function__"), item.get("__kwargs__")
            if isinstance(name, str) and isinstance(given, dict):
                yield name, given
            level.extend(item.values())
        elif isinstance(item, list):
            level.extend(item)


def _kind_of_measure(measure: Any) -> str:
    name, given = _node(measure)
    if name == "approximate":
        name, _ = _node(given.get("output_measure", given.get("measure")))
    if name not in _MEASURES:
        raise FileFormatError(f"The measure of privacy {name!r} names no noise that is known here.")
    return _MEASURES[name]


def _atom(given: Any) -> str | None:
    return given if given in ATOMS else None


def _ends(atom: str) -> tuple[float | None, float | None]:
    """Where whole numbers of a type end, if noisy ones may get there."""
    sign, bits = atom[0], atom[1:]
    few = bits.isdigit() and int(bits) <= _FEW_BITS
    if sign == "u":
        return 0.0, 2.0 ** int(bits) - 1 if few else None
    return (-(2.0 ** (int(bits) - 1)), 2.0 ** (int(bits) - 1) - 1) if few else (None, None)


def _positive(value: Any, name: str) -> float:
    number = _real(value, name)
    if number > 0.0:
        return number
    raise FileFormatError(f"The {name} of the noise must be above 0, got {number:g}.")


def _real(value: Any, name: str) -> float:
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return float(value)
    raise FileFormatError(f"The {name} of the noise must be a number, got {_kind(value)}.")


def _whole(value: Any, name: str) -> int | None:
    if value is None or (isinstance(value, int) and not isinstance(value, bool)):
        return value
    raise FileFormatError(f"{name} must be a whole number or null, got {_kind(value)}.")


def _bounds(value: Any) -> tuple[float, float] | None:
    if value is None:
        return None
    ends = value.get("__tuple__") if isinstance(value, Mapping) else value
    if isinstance(ends, list) and len(ends) == 2:
        low, high = (_real(end, "bounds") for end in ends)
        if low < high:
            return low, high
    raise FileFormatError("The bounds of the noise must be two numbers, low < high.")


def _kind(value: Any) -> str:
    return "null" if value is None else f"a {type(value).__name__}"
