"""Estimators come back from files bit by bit, and hostile files are refused."""

import copy
import functools
import json

import equinox as eqx
import jax
import numpy as np
import pytest

from noisewise.errors import FileFormatError, InvalidInputError, InvalidTypeError
from noisewise.estimators.files import from_spec, to_arrays, to_spec
from noisewise.estimators.flows import neural_spline_flow
from noisewise.runs.archive import read_archive, write_archive
from tests.estimators.catalogue import CONDITION, FACTORIES, perturbed

ROWS = np.random.default_rng(0).normal(size=(50, 2)).astype(np.float32)


@eqx.filter_jit
def log_prob(estimator, num_members):
    if num_members is None:
        return estimator.log_prob(ROWS, CONDITION)
    return eqx.filter_vmap(lambda member: member.log_prob(ROWS, CONDITION))(estimator)


@pytest.mark.parametrize(
    ("name", "num_members"), [*((name, None) for name in FACTORIES), ("masked autoregressive", 2)]
)
def test_round_trip_through_an_archive_is_exact(name, num_members, tmp_path):
    factory = FACTORIES[name]
    make = lambda key: factory(key, 2, 2)
    key = jax.random.key(4)
    made = (
        make(key)
        if num_members is None
        else eqx.filter_vmap(make)(jax.random.split(key, num_members))
    )
    estimator = perturbed(made)
    spec = to_spec(factory, 2, 2, num_members=num_members)
    write_archive(tmp_path / "saved", "estimator", spec, to_arrays(estimator))
    _, content, arrays = read_archive(tmp_path / "saved", ("estimator",))
    again = from_spec(content, arrays)
    assert jax.tree.structure(again) == jax.tree.structure(estimator)
    np.testing.assert_array_equal(log_prob(again, num_members), log_prob(estimator, num_members))


def test_a_description_records_every_setting():
    nested = functools.partial(
        functools.partial(neural_spline_flow, num_units=20, bound=3), num_units=30
    )
    spec = to_spec(nested, 1, None)
    assert json.loads(json.dumps(spec)) == spec
    assert spec["settings"] == {
        "num_layers": 8,
        "num_units": 30,
        "num_hidden": 2,
        "num_bins": 10,
        "bound": 3.0,
    }
    assert spec["condition_dim"] is None


def my_own_factory(key, target_dim, condition_dim):
    return neural_spline_flow(key, target_dim, condition_dim)


def test_what_cannot_be_described_is_refused():
    with pytest.raises(InvalidInputError, match=r"no code, and cannot rebuild 'my_own_factory'"):
        to_spec(my_own_factory, 2, 2)
    with pytest.raises(InvalidInputError, match="by name"):
        to_spec(functools.partial(neural_spline_flow, jax.random.key(0)), 2, 2)
    with pytest.raises(InvalidInputError, match="no setting depth"):
        to_spec(functools.partial(neural_spline_flow, depth=2), 2, 2)
    with pytest.raises(InvalidInputError, match="num_units must be at most"):
        to_spec(functools.partial(neural_spline_flow, num_units=10_000), 2, 2)
    with pytest.raises(InvalidTypeError, match="neural_spline_flow"):
        to_spec("neural_spline_flow", 2, 2)


@pytest.fixture(scope="module")
def saved():
    factory = FACTORIES["spline coupling"]
    return to_spec(factory, 2, 2), to_arrays(factory(jax.random.key(0), 2, 2))


def changed(spec, **changes):
    spec = copy.deepcopy(spec)
    for path, value in changes.items():
        *outer, last = path.split("__")
        place = spec
        for name in outer:
            place = place[name]
        place[last] = value
    return spec


HOSTILE = {
    "foreign kind": {"kind": "os.system"},
    "kind of another type": {"kind": ["neural_spline_flow"]},
    "another known kind": {"kind": "mixture_density_network"},
    "unknown key": {"code": "import os"},
    "unknown setting": {"settings__activation": "eval"},
    "settings of another type": {"settings": [8]},
    "huge target": {"target_dim": 10**9},
    "huge condition": {"condition_dim": 4000},
    "huge units": {"settings__num_units": 2**62},
    "wide but allowed units": {"settings__num_units": 4096},
    "huge ensemble": {"num_members": 10**6},
    "ensemble that is not one": {"num_members": 2},
    "no members": {"num_members": 0},
    "negative": {"target_dim": -1},
    "zero layers": {"settings__num_layers": 0},
    "true for one": {"settings__num_layers": True},
    "text for a number": {"target_dim": "2"},
    "no target": {"target_dim": None},
    "float for an integer": {"settings__num_layers": 2.0},
    "bound that is not finite": {"settings__bound": float("inf")},
}


@pytest.mark.parametrize("case", HOSTILE)
def test_hostile_descriptions_are_refused(case, saved):
    spec, arrays = saved
    with pytest.raises(FileFormatError):
        from_spec(changed(spec, **HOSTILE[case]), arrays)


def test_a_description_that_is_none_or_lacks_keys_is_refused(saved):
    spec, arrays = saved
    for bad in (None, [], {}, {name: spec[name] for name in spec if name != "kind"}):
        with pytest.raises(FileFormatError):
            from_spec(bad, arrays)


def test_wrong_arrays_are_refused(saved):
    spec, arrays = saved
    first = next(iter(arrays))
    spoilt = arrays[first].copy()
    spoilt.flat[0] = np.nan
    wrong = {
        "shape": arrays[first][:1],
        "dtype": arrays[first].astype(np.float64),
        "values": spoilt,
        "kind": arrays[first].tolist(),
    }
    for array in wrong.values():
        with pytest.raises(FileFormatError, match="weights"):
            from_spec(spec, {**arrays, first: array})
    for names in (arrays.keys() - {first}, {*arrays, "another"}):
        with pytest.raises(FileFormatError, match="6 arrays"):
            from_spec(spec, {name: arrays.get(name, spoilt) for name in names})
