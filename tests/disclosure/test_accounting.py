"""Totals of several costs: hand-computed cases, what remains, and overspending that must not pass."""

import itertools
import json
import math

import numpy as np
import pytest
from scipy.stats import binom

import noisewise as nw
from noisewise.disclosure import accounting
from noisewise.errors import (
    BudgetError,
    ConversionError,
    FileFormatError,
    InvalidInputError,
    InvalidTypeError,
)

Pure, Approximate, Concentrated, Gaussian = (
    nw.PureDP,
    nw.ApproximateDP,
    nw.ZeroConcentratedDP,
    nw.GaussianDP,
)
LIMIT = Approximate(1.0, 1e-6)


def asked(epsilon, delta):
    """What a release with discrete Gaussian noise costs that was asked for as (epsilon, delta)."""
    request = Approximate(epsilon, delta)
    return Concentrated.from_approximate(request), request


def plain(*guarantees):
    return [(guarantee, None) for guarantee in guarantees]


BASIC = {
    "pure, then asked for": ([(Pure(0.3), None), asked(0.5, 5e-7)], Approximate(0.8, 5e-7)),
    "asked for three times": ([asked(0.3, 3e-7)] * 3, Approximate(0.9, 9e-7)),
    "by hand": (
        plain(Approximate(0.25, 2e-7), Approximate(0.5, 4e-7), Pure(0.125)),
        Approximate(0.875, 6e-7),
    ),
    "pure": (plain(Pure(0.25), Pure(0.5)), Approximate(0.75, 0.0)),
}


@pytest.mark.parametrize("name", BASIC)
def test_epsilons_and_deltas_add(name):
    costs, total = BASIC[name]
    found = accounting.spent(costs, LIMIT)
    assert found.parameters == pytest.approx(total.parameters, rel=1e-14)
    left = accounting.remaining(costs, LIMIT)
    expected = (1.0 - total.epsilon, 1e-6 - total.delta)
    assert tuple(left.parameters.values()) == pytest.approx(expected, rel=1e-9)
    assert accounting.fits(costs, LIMIT)
    assert accounting.fits([*costs, (left, None)], LIMIT)


OVERSPENT = {
    "epsilon": plain(Pure(0.6), Approximate(0.41, 1e-7)),
    "delta": plain(Approximate(0.5, 5e-7), Approximate(0.4, 6e-7)),
    "pure, then asked for": [(Pure(0.51), None), asked(0.5, 5e-7)],
    "concentrated": plain(Concentrated(0.015), Concentrated(0.015)),  # the limit is rho = 0.0244
    # each of them alone at the whole delta would seem to leave 0.6 for the other
    "the same delta twice": [(Approximate(0.4, 4e-7), None), (asked(0.6, 1e-6)[0], None)],
    "no delta left": [(Approximate(0.4, 1e-6), None), (Concentrated(1e-6), None)],
}


@pytest.mark.parametrize("name", OVERSPENT)
def test_overspending_is_refused(name, tmp_path):
    costs = OVERSPENT[name]
    assert not accounting.fits(costs, LIMIT)
    ledger = nw.Ledger(tmp_path / "ledger.json", limit=LIMIT)
    ledger.spend(costs[0][0], requested=costs[0][1])
    before = ledger.path.read_bytes()
    with pytest.raises(BudgetError, match="would pass its limit"):
        ledger.spend(costs[1][0], requested=costs[1][1])
    assert ledger.path.read_bytes() == before


def test_the_undecided_deltas_share_what_is_left():
    """4e-7 are taken, so two zCDP releases get 3e-7 each; rho for (0.3, 3e-7) just fits, a
    hundredth more does not.
    """
    rho = Concentrated.from_approximate(Approximate(0.3, 3e-7)).rho
    costs = plain(Approximate(0.4, 4e-7), Concentrated(rho), Concentrated(rho))
    assert accounting.fits(costs, LIMIT)
    assert not accounting.fits([*costs[:2], (Concentrated(1.01 * rho), None)], LIMIT)
    total = accounting.spent(costs, LIMIT)
    assert (total.epsilon, total.delta) == (pytest.approx(1.0, abs=1e-9), pytest.approx(1e-6))


def test_the_better_of_two_accountings_counts():
    """Two releases asked for as (0.5, 5e-7) exhaust basic composition; as zCDP they leave half of
    the limit's rho.
    """
    costs = [asked(0.5, 5e-7)] * 2
    limit, rho = Concentrated.from_approximate(LIMIT).rho, costs[0][0].rho
    left = accounting.remaining(costs, LIMIT)
    assert isinstance(left, Concentrated)
    assert left.rho == pytest.approx(limit - 2 * rho)
    assert accounting.spent(costs, LIMIT).epsilon == pytest.approx(
        Concentrated(2 * rho).to(Approximate, delta=1e-6).epsilon
    )
    assert accounting.fits([*costs, asked(0.5, 5e-7)], LIMIT)
    assert not accounting.fits([*costs, (Concentrated(1.001 * left.rho), None)], LIMIT)


def test_many_small_pure_releases_add_like_gaussian_ones():
    """100 times epsilon = 0.05 is 5 by addition; rho = 100 (0.05)^2 / 2 = 1/8 is within (3, 1e-6)."""
    costs = plain(*[Pure(0.05)] * 100)
    assert Concentrated(0.125).within(Approximate(3.0, 1e-6))
    assert accounting.fits(costs, Approximate(3.0, 1e-6))
    assert not accounting.fits(costs, Approximate(3.0, 0.0))
    assert not accounting.fits(costs, Pure(3.0))
    assert accounting.spent(costs, Concentrated(1.0)).rho == pytest.approx(0.125)


def responses_delta(epsilon, number, at):
    """The delta at epsilon `at` of `number` binary randomised responses, exactly, from their
    binomial law.
    """
    truth = 1.0 / (1.0 + math.exp(-epsilon))
    ones = np.arange(number + 1)
    first, second = binom.pmf(ones, number, truth), binom.pmf(ones, number, 1.0 - truth)
    return np.maximum(first - math.exp(at) * second, 0.0).sum()


@pytest.mark.parametrize("number", [1, 2, 10, 100, 400])
@pytest.mark.parametrize("epsilon", [0.02, 0.1, 0.5])
def test_no_total_understates_the_loss_of_randomised_responses(epsilon, number):
    """For a mechanism whose total is known exactly, every total and the one reported must lie above
    it.
    """
    costs = plain(*[Pure(epsilon)] * number)
    for delta in (1e-9, 1e-6, 1e-2):
        limit = Approximate(3.0, delta)
        for total in (accounting.spent(costs, limit), *accounting._totals(costs, limit)):
            shown = accounting._at_limit(total, limit)
            assert (
                responses_delta(epsilon, number, shown.epsilon) <= shown.delta * (1 + 1e-9) + 1e-15
            )


@pytest.mark.parametrize(
    "slip", [Concentrated(400 * 0.1**2 / 8), Gaussian(20 * 0.1 / 2), Approximate(4.0, 1e-2)]
)
def test_an_understated_loss_of_randomised_responses_is_seen(slip):
    """400 times epsilon = 0.1 with rho = epsilon^2/8, mu = epsilon/2, or the epsilons of every
    tenth release.
    """
    shown = accounting._at_limit(slip, Approximate(3.0, 1e-2))
    assert responses_delta(0.1, 400, shown.epsilon) > 1.5 * shown.delta


def test_what_remains_can_be_spent_whatever_was_spent():
    rng = np.random.default_rng(3)
    kinds = [
        lambda: (Pure(rng.uniform(0, 0.2)), None),
        lambda: (Approximate(rng.uniform(0, 0.2), 10 ** rng.uniform(-9, -7)), None),
        lambda: (Concentrated(10 ** rng.uniform(-6, -2.5)), None),
        lambda: (Gaussian(10 ** rng.uniform(-3, -1)), None),
        lambda: asked(rng.uniform(0.05, 0.3), 10 ** rng.uniform(-9, -7)),
    ]
    spendings = itertools.count()
    for _ in range(40):
        costs = []
        for _ in range(rng.integers(1, 5)):
            cost = kinds[rng.integers(len(kinds))]()
            if accounting.fits([*costs, cost], LIMIT):
                costs.append(cost)
        left = accounting.remaining(costs, LIMIT)
        if any(left.parameters.values()):
            next(spendings)
            assert accounting.fits([*costs, (left, None)], LIMIT), (costs, left)
        assert accounting.spent(costs, LIMIT).within(LIMIT)
    assert next(spendings) >= 30


def test_a_limit_without_delta_takes_pure_releases_only():
    limit = Approximate(1.0, 0.0)
    assert accounting.fits(plain(Pure(0.5), Approximate(0.5, 0.0)), limit)
    assert not accounting.fits(plain(Pure(0.5), Pure(0.6)), limit)
    with pytest.raises(ConversionError, match="without a positive delta"):
        accounting.fits(plain(Concentrated(1e-4)), limit)


@pytest.mark.parametrize(
    "guarantee", [Pure(1e308), Concentrated(1e300), Gaussian(1e200), Gaussian(1e100), Pure(800.0)]
)
def test_absurd_costs_do_not_fit(guarantee):
    costs = [(guarantee, None), (Pure(0.1), None)]
    for limit in (LIMIT, Approximate(1.0, 0.999)):
        assert not accounting.fits(costs, limit)
        assert not accounting.implies(guarantee, LIMIT)


# In the ledger ------------------------------------------------------------------------------------


def test_the_case_of_the_curator(tmp_path):
    ledger = nw.Ledger(tmp_path / "ledger.json", limit=LIMIT)
    ledger.spend(Pure(0.3), "a histogram")
    guarantee, request = asked(0.5, 5e-7)
    ledger.spend(guarantee, "a mean", requested=request, query="ClampedMean")
    again = nw.Ledger(tmp_path / "ledger.json")
    assert again.spent == Approximate(0.8, 5e-7)
    assert tuple(again.remaining.parameters.values()) == pytest.approx((0.2, 5e-7))
    assert [(entry.query, entry.requested) for entry in again.entries] == [
        (None, None),
        ("ClampedMean", request),
    ]
    assert again.entries == ledger.entries


def test_a_request_must_follow_from_the_guarantee(tmp_path):
    ledger = nw.Ledger(tmp_path / "ledger.json", limit=LIMIT)
    guarantee, request = asked(0.5, 5e-7)
    for false in (Approximate(0.49, 5e-7), Approximate(0.5, 4e-7), Pure(0.9)):
        with pytest.raises(InvalidInputError, match="does not follow"):
            ledger.spend(guarantee, requested=false)
    with pytest.raises(InvalidTypeError):
        ledger.spend(guarantee, requested=0.5)
    assert ledger.entries == ()
    ledger.spend(guarantee, requested=request)
    content = json.loads(ledger.path.read_text())
    content["entries"][0]["requested"]["epsilon"] = 0.1
    ledger.path.write_text(json.dumps(content))
    with pytest.raises(FileFormatError, match="does not follow"):
        nw.Ledger(ledger.path)


@pytest.mark.parametrize(
    "time", ["yesterday", "2026-01-31T12:00:00", "2026-01-31T12:00:00+01:00", 3, None]
)
def test_times_are_in_utc(time, tmp_path):
    ledger = nw.Ledger(tmp_path / "ledger.json", limit=LIMIT)
    ledger.spend(Pure(0.1))
    content = json.loads(ledger.path.read_text())
    assert content["entries"][0]["time"].endswith("+00:00")
    content["entries"][0]["time"] = time
    ledger.path.write_text(json.dumps(content))
    with pytest.raises(FileFormatError, match="UTC"):
        nw.Ledger(ledger.path)
