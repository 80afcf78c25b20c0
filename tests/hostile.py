"""Seeded damage to files, for every loader: bytes flipped, cut, repeated; in JSON files wrong values
in any place.
"""

import copy
import json

NUMBERS = [None, True, False, 0, -1, 3, 2**63 - 1, 1e308, -1e-308, 0.5]
TEXTS = ["", "x", "PureDP", "inf", "-inf", "\u0000", "\u2028", "9" * 2000]
LISTS = [[], {}, [[]], [1], [True], [None]]
SPECS = [{"type": "Laplace"}, {"type": []}, {"type": {}}, {"type": "Clamped", "mechanism": None}]
WEIRD = [*NUMBERS, *TEXTS, *LISTS, *SPECS]
WORDS = [
    b"NaN",
    b"Infinity",
    b"-Infinity",
    b"1e999",
    b"9" * 400,
    b"\xff\xfe",
    b"\\ud800",
    b'"a":1,"a":2',
]
BYTES = [*WORDS, b"[" * 500, b"\0", b"{}", b","]


def damaged(text, rng, count):
    """`count` damaged copies of a JSON text, as bytes; some of them still valid."""
    for number in range(count):
        yield _damage_bytes(text.encode(), rng) if number % 2 else _damage_tree(text, rng)


def damaged_bytes(content, rng, count):
    """`count` damaged copies of the bytes of any file."""
    for _ in range(count):
        yield _damage_bytes(content, rng)


def _damage_bytes(content, rng):
    content = bytearray(content)
    for _ in range(int(rng.integers(1, 4))):
        at, size = int(rng.integers(len(content) + 1)), int(rng.integers(1, 40))
        kind = rng.integers(5)
        if kind == 0 and at < len(content):
            content[at] ^= 1 << int(rng.integers(8))
        elif kind == 1:
            del content[at : at + size]
        elif kind == 2:
            content[at:at] = content[at : at + size]
        elif kind == 3:
            content[at:at] = BYTES[rng.integers(len(BYTES))]
        else:
            del content[at:]
    return bytes(content)


def _damage_tree(text, rng):
    tree = json.loads(text)
    for _ in range(int(rng.integers(1, 3))):
        places = list(_places(tree))
        parent, key = places[rng.integers(len(places))]
        kind = rng.integers(4)
        if kind == 0:
            del parent[key]
        elif kind == 1 and isinstance(parent, dict):
            parent[f"extra{rng.integers(9)}"] = parent[key]
        elif kind == 2:
            other, place = places[rng.integers(len(places))]
            parent[key] = copy.deepcopy(other.get(place) if isinstance(other, dict) else None)
        else:
            parent[key] = copy.deepcopy(WEIRD[rng.integers(len(WEIRD))])
        if not tree:
            break
    return json.dumps(tree).encode()


def _places(tree):
    items = tree.items() if isinstance(tree, dict) else enumerate(tree)
    for key, value in items:
        yield tree, key
        if isinstance(value, (dict, list)):
            yield from _places(value)
