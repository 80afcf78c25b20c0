"""Relations of neighbours, and guarantees that carry them."""

import dataclasses
import functools
import itertools
import json

import jax
import numpy as np
import pytest

import noisewise as nw
from noisewise._core.neighbours import (
    REPLACE_ONE,
    as_neighbours,
    joint_relation,
    neighbours_from_spec,
)
from noisewise.errors import ConversionError, FileFormatError, InvalidInputError, InvalidTypeError
from noisewise.mechanisms import from_spec
from noisewise.mechanisms.guarantees import compose, guarantee_from_spec
from tests.catalogue import MECHANISMS

ADD = nw.AddRemoveOne()
GUARANTEES = [
    nw.PureDP(1.0),
    nw.ApproximateDP(0.5, 1e-6),
    nw.ZeroConcentratedDP(0.2),
    nw.GaussianDP(1.5),
]
KINDS = (nw.PureDP, nw.ApproximateDP, nw.ZeroConcentratedDP, nw.GaussianDP)
RELATIONS = [
    nw.ReplaceOne(),
    nw.ReplaceOne("household"),
    ADD,
    nw.AddRemoveOne(unit="household"),
    nw.AddRemoveOne(max_contributions=3),
    nw.AddRemoveOne(max_contributions=3, max_per_cell=2),
]


def test_relations_are_equal_by_value_and_different_otherwise():
    assert nw.AddRemoveOne(max_contributions=3) == nw.AddRemoveOne("person", 3, 3)
    assert nw.ReplaceOne() == nw.ReplaceOne("person")
    assert nw.ReplaceOne() != ADD
    assert len(set(RELATIONS)) == len(RELATIONS)


@pytest.mark.parametrize("relation", RELATIONS, ids=repr)
def test_a_relation_survives_its_file(relation):
    spec = json.loads(json.dumps(relation.to_spec()))
    assert neighbours_from_spec(spec) == relation
    with pytest.raises(FileFormatError):
        neighbours_from_spec(spec | {"more": 1})
    with pytest.raises(FileFormatError):
        neighbours_from_spec(spec | {"unit": 3})


@pytest.mark.parametrize(
    ("settings", "problem"),
    [
        ({"max_contributions": 0}, ">= 1"),
        ({"max_contributions": 2, "max_per_cell": 3}, "at most max_contributions=2"),
        ({"max_per_cell": 0}, ">= 1"),
        ({"unit": ""}, "printable"),
    ],
)
def test_bounds_that_no_unit_has_are_refused(settings, problem):
    with pytest.raises(InvalidInputError, match=problem):
        nw.AddRemoveOne(**settings)


@pytest.mark.parametrize("given", ["replace-one", nw.AddRemoveOne, None, 1])
def test_what_is_no_relation_is_refused_with_the_line_to_write(given):
    with pytest.raises(InvalidTypeError, match=r"nw.AddRemoveOne\(\)"):
        as_neighbours(given)
    with pytest.raises(InvalidTypeError, match=r"nw.AddRemoveOne\(\)"):
        nw.PureDP(1.0, neighbours=given)


def test_a_given_relation_may_not_contradict_the_one_carried():
    assert joint_relation(REPLACE_ONE, ADD, "guarantee") == ADD
    assert joint_relation(ADD, None, "guarantee") == ADD
    assert joint_relation(ADD, nw.AddRemoveOne("household"), "guarantee").unit == "household"
    for carried, given in [(ADD, nw.ReplaceOne()), (nw.ReplaceOne("school"), nw.ReplaceOne())]:
        with pytest.raises(InvalidInputError, match="leave neighbours out"):
            joint_relation(carried, given, "guarantee")


# Guarantees ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("guarantee", GUARANTEES, ids=repr)
def test_the_default_is_left_out_of_texts_and_files(guarantee):
    assert "neighbours" not in repr(guarantee)
    assert set(guarantee.to_spec()) == {"type", *guarantee.parameters}
    assert eval(repr(guarantee), vars(nw)) == guarantee


@pytest.mark.parametrize("relation", RELATIONS, ids=repr)
@pytest.mark.parametrize("guarantee", GUARANTEES, ids=repr)
def test_every_conversion_keeps_the_relation(guarantee, relation):
    carried = guarantee.with_neighbours(relation)
    assert guarantee_from_spec(json.loads(json.dumps(carried.to_spec()))) == carried
    assert eval(repr(carried), {name: getattr(nw, name) for name in nw.__all__}) == carried
    assert carried.group(3).neighbours == relation
    assert compose([carried, carried]).neighbours == relation
    converted = 0
    for kind in KINDS:
        for delta in (None, 1e-5):
            try:
                assert carried.to(kind, delta=delta).neighbours == relation
                converted += 1
            except (ConversionError, InvalidInputError):
                continue
    assert converted >= 2
    assert carried.to_gaussian().neighbours == relation


@pytest.mark.parametrize("pair", itertools.permutations(RELATIONS, 2), ids=repr)
def test_nothing_follows_or_adds_up_across_relations(pair):
    small, large = nw.PureDP(0.1, neighbours=pair[0]), nw.PureDP(9.0, neighbours=pair[1])
    assert small != nw.PureDP(0.1, neighbours=pair[1])
    assert not small.within(large)
    with pytest.raises(ConversionError, match="for_replacement"):
        small.compose(large)


def test_replacing_is_removing_and_adding_and_must_be_asked_for():
    assert nw.PureDP(0.5, neighbours=ADD).for_replacement() == nw.PureDP(1.0)
    assert nw.GaussianDP(0.5, neighbours=ADD).for_replacement() == nw.GaussianDP(1.0)
    assert nw.ZeroConcentratedDP(0.5, neighbours=ADD).for_replacement().rho == 2.0
    households = nw.PureDP(0.5, neighbours=nw.AddRemoveOne("household")).for_replacement()
    assert households == nw.PureDP(1.0, neighbours=nw.ReplaceOne("household"))
    with pytest.raises(ConversionError, match="promises nothing"):
        nw.ApproximateDP(9.0, 0.5, neighbours=ADD).for_replacement()
    for relation in (nw.ReplaceOne(), nw.AddRemoveOne(max_contributions=2)):
        with pytest.raises(ConversionError, match="max_contributions=1"):
            nw.PureDP(0.5, neighbours=relation).for_replacement()


# No guarantee -------------------------------------------------------------------------------------


@pytest.mark.parametrize("guarantee", GUARANTEES, ids=repr)
def test_no_guarantee_swallows_all_and_gives_nothing(guarantee):
    nothing = nw.NoGuarantee()
    assert compose([guarantee.with_neighbours(ADD), nothing]) == nothing
    assert nothing.compose(guarantee) == nothing
    assert nothing.group(5) == nothing
    assert not nothing.within(guarantee)
    assert guarantee.within(nothing)
    assert guarantee_from_spec(nothing.to_spec()) == nothing
    assert repr(nothing) == "NoGuarantee()"
    with pytest.raises(ConversionError, match="promises nothing"):
        nothing.to(type(guarantee))
    with pytest.raises(ConversionError, match="promises nothing"):
        nothing.to_gaussian()


# Mechanisms ---------------------------------------------------------------------------------------

CARRYING = [
    name
    for name, case in MECHANISMS.items()
    if any(field.name == "neighbours" for field in dataclasses.fields(case.mechanism))
]
PLAIN = nw.mechanisms.Laplace(scale=2.0, sensitivity=1.0)


@pytest.mark.parametrize("name", CARRYING)
def test_a_mechanism_carries_its_relation_everywhere(name):
    plain = MECHANISMS[name].mechanism
    assert "neighbours" not in repr(plain)
    assert "neighbours" not in plain.to_spec()
    carried = plain.for_neighbours(ADD)
    assert carried.guarantee == plain.guarantee.with_neighbours(ADD)
    spec = json.loads(json.dumps(carried.to_spec()))
    assert from_spec(spec) == carried
    assert from_spec(plain.to_spec()) == plain
    assert carried.for_neighbours(ADD) is carried
    with pytest.raises(InvalidInputError, match="leave neighbours out"):
        carried.for_neighbours(nw.ReplaceOne())
    for ours, theirs in zip(jax.tree.leaves(carried), jax.tree.leaves(plain), strict=True):
        np.testing.assert_array_equal(ours, theirs)
    with pytest.raises(FileFormatError):
        from_spec(spec | {"neighbours": {"type": "AddRemoveOne", "unit": "person"}})


CALIBRATED = [name for name in CARRYING if MECHANISMS[name].settings is not None]


@pytest.mark.parametrize("name", CALIBRATED)
def test_calibration_takes_the_relation_of_the_guarantee(name):
    case = MECHANISMS[name]
    wanted = case.mechanism.guarantee.with_neighbours(ADD)
    calibrate = functools.partial(type(case.mechanism).calibrate, **case.settings)
    assert calibrate(guarantee=wanted).guarantee.neighbours == ADD
    assert calibrate(guarantee=wanted, neighbours=ADD) == calibrate(guarantee=wanted)
    by_name = calibrate(guarantee=case.mechanism.guarantee, neighbours=ADD)
    assert by_name == calibrate(guarantee=wanted)
    assert by_name.recalibrated(case.mechanism.guarantee).neighbours == ADD
    with pytest.raises(InvalidInputError, match="leave neighbours out"):
        calibrate(guarantee=wanted, neighbours=nw.AddRemoveOne(max_contributions=2))


def test_composed_mechanisms_pass_the_relation_on():
    for whole in (
        nw.mechanisms.Product([PLAIN, PLAIN]),
        nw.mechanisms.Clamped(PLAIN, low=0.0),
        nw.mechanisms.Thresholded(PLAIN, above=3.0),
        nw.mechanisms.Product([nw.mechanisms.Clamped(PLAIN, low=0.0), PLAIN]),
    ):
        carried = whole.for_neighbours(ADD)
        assert carried.neighbours == carried.guarantee.neighbours == ADD
        assert from_spec(json.loads(json.dumps(carried.to_spec()))) == carried
        again = carried.recalibrated(nw.PureDP(3.0))
        assert again.guarantee == nw.PureDP(3.0, neighbours=ADD)


def test_what_promises_nothing_promises_it_to_nobody():
    whole = nw.mechanisms.Product([PLAIN, nw.mechanisms.Exact(), nw.mechanisms.Rounded()])
    assert whole.for_neighbours(ADD).blocks[0].neighbours == ADD
    assert whole.for_neighbours(ADD).guarantee == nw.NoGuarantee()
    local = nw.mechanisms.TransitionTable([[0.75, 0.25], [0.25, 0.75]], local=True)
    with pytest.raises(InvalidInputError, match=r"ReplaceOne"):
        local.for_neighbours(ADD)


def test_blocks_of_different_relations_promise_nothing_together():
    mixed = nw.mechanisms.Product([PLAIN, PLAIN.for_neighbours(ADD)])
    with pytest.raises(ConversionError, match="same neighbours"):
        mixed.guarantee  # noqa: B018


def test_a_mechanism_of_one_relation_refuses_others():
    curve = nw.mechanisms.PaddedBinomial(trials=5, padding=1.0, population=10, num_times=2)
    assert curve.for_neighbours(nw.ReplaceOne("household")) is curve
    with pytest.raises(InvalidInputError, match=r"ReplaceOne"):
        curve.for_neighbours(ADD)
    with pytest.raises(InvalidInputError, match=r"ReplaceOne"):
        nw.mechanisms.PaddedBinomial.calibrate(
            trials=5, population=10, num_times=2, guarantee=nw.PureDP(1.0, neighbours=ADD)
        )


def test_a_users_mechanism_has_the_relation_of_its_stated_guarantee():
    def sample(key, s):
        return s + jax.random.laplace(key, s.shape)

    claimed = nw.mechanisms.SampledMechanism(sample, guarantee=nw.PureDP(1.0, neighbours=ADD))
    assert claimed.neighbours == ADD
    plain = nw.mechanisms.SampledMechanism(sample, guarantee=nw.PureDP(1.0))
    with pytest.raises(InvalidInputError, match="state it so"):
        plain.for_neighbours(ADD)
    silent = nw.mechanisms.SampledMechanism(sample)
    assert silent.for_neighbours(ADD) is silent
