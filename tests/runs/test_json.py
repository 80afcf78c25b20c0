"""The one way in which values become JSON."""

import dataclasses
import enum
import functools
import json
import math

import jax.numpy as jnp
import numpy as np
import pytest

from noisewise._core.json_files import dump_json, json_digest, json_line
from noisewise._core.json_values import as_null, as_object, as_text, as_word, jsonable, unchanged


class Colour(enum.StrEnum):
    RED = "red"


@dataclasses.dataclass
class Pair:
    first: int
    second: tuple


VALUES = {
    "NumPy number": (np.int64(3), 3),
    "NumPy boolean": (np.bool_(True), True),
    "NumPy float": (np.float32(0.5), 0.5),
    "NumPy array": (np.array([[1.0, np.nan]]), [[1.0, None]]),
    "JAX array": (jnp.arange(3), [0, 1, 2]),
    "tuple": ((1, (2,)), [1, [2]]),
    "keys": ({1.5: {"a": None}}, {"1.5": {"a": None}}),
    "enum": (Colour.RED, "red"),
    "dataclass": (Pair(1, (2, math.inf)), {"type": "Pair", "first": 1, "second": [2, None]}),
    "partial": (functools.partial(max, default=(1,)), {"type": "max", "default": [1]}),
    "function": (max, "max"),
    "class": (Pair, "Pair"),
}


@pytest.mark.parametrize("name", VALUES)
def test_values_become_what_json_knows(name):
    value, expected = VALUES[name]
    made = jsonable(value)
    assert made == expected
    assert type(made) is type(expected)
    assert json.loads(json_line(made)) == expected


SPELLINGS = {
    as_null: (None, None, None),
    as_text: ("nan", "inf", "-inf"),
    as_word: ("NaN", "Infinity", "-Infinity"),
    as_object: ({"not finite": "nan"}, {"not finite": "inf"}, {"not finite": "-inf"}),
}


@pytest.mark.parametrize("spelling", SPELLINGS, ids=lambda spelling: spelling.__name__)
def test_numbers_that_are_not_finite_are_spelt_as_files_spell_them(spelling):
    numbers = [math.nan, math.inf, -math.inf]
    assert jsonable(numbers, spelling) == list(SPELLINGS[spelling])
    assert jsonable(np.array(numbers), spelling) == list(SPELLINGS[spelling])


def test_nothing_else_is_written():
    with pytest.raises(TypeError, match="type object"):
        jsonable({"a": [object()]})
    assert jsonable([object()], other=lambda value: "x") == ["x"]
    for write in (dump_json, json_line, json_digest):
        with pytest.raises(ValueError, match="not JSON compliant"):
            write({"a": jsonable(math.inf, unchanged)})


def test_a_digest_does_not_depend_on_the_order_of_keys():
    assert json_digest({"a": 1, "b": [2]}) == json_digest({"b": [2], "a": 1})
    assert json_digest({"a": 1}) != json_digest({"a": 1.0})
