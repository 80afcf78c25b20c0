import dataclasses

import jax
import numpy as np
import pytest

from experiments import items
from experiments import noise_rmse as item
from noisewise.mechanisms import IndependentUniforms, ScrambledSobol

SIZES, REPEATS, PAIRS, DIM = (8, 32, 128), 100, 4, 3


def smooth(key, num, points):
    """An integral with a known RMSE: the mean of a sum of uniforms, whose variance is d / (12 M)."""
    return points.uniforms(key, PAIRS, num, DIM).sum(axis=-1).mean(axis=-1)


def rough(key, num, points):
    """The same with independent points, whichever are given."""
    return smooth(key, num, IndependentUniforms())


def measured(points):
    return item.estimates(smooth, points, SIZES, REPEATS)


@pytest.fixture(scope="module")
def values():
    return {"MC": measured(IndependentUniforms()), "RQMC": measured(ScrambledSobol())}


@pytest.fixture(scope="module")
def result(values):
    made = {
        "num_simulations": 10,
        "epsilon": 10.0,
        "dimensions": 3,
        **item.summarised(values, SIZES),
    }
    return {
        "sizes": list(SIZES),
        "num_pairs": 4,
        "repeats": 100,
        "problems": {"sir": made, "linear_regression": made},
    }


def test_independent_points_have_the_known_error(values):
    exact = np.sqrt(DIM / 12 / np.array(SIZES))
    # a variance from 4 * 99 degrees of freedom has a relative sd of .071, its root .036: 4 of these
    np.testing.assert_allclose(item.rmse(values["MC"]), exact, rtol=0.145)


def test_slopes_of_a_smooth_integrand(values):
    made = item.summarised(values, SIZES)
    # log errors have sd .036 (see above) at log M of spread 2 log 4: the slope of three has .036 /
    # (sqrt(2) log 4) = .018
    assert 0.009 < made["MC"]["slope_se"] < 0.036
    assert abs(made["MC"]["slope"] + 0.5) < 4 * 0.018
    # a net of M points is equidistant in each coordinate: a sum of uniforms has error M^-1.5.
    # Errors of nets have heavy tails: over six
    # seeds the slope had an sd of .08
    assert 0.02 < made["RQMC"]["slope_se"] < 0.2
    assert abs(made["RQMC"]["slope"] + 1.5) < 4 * 0.08
    assert made["steeper"]
    assert made["smaller"]
    assert not made["paper_slope"]


def test_nets_that_were_never_switched_on_fail(values):
    """The bug of the published code, planted: independent points where nets are meant."""
    made = item.summarised({"MC": values["MC"], "RQMC": measured(IndependentUniforms())}, SIZES)
    assert not made["steeper"]
    assert not made["smaller"]


def test_an_error_that_is_not_a_root_is_seen(values, monkeypatch):
    """A planted variance in place of a standard deviation doubles the slope of independent points."""
    monkeypatch.setattr(item, "rmse", lambda found: found.var(axis=-2, ddof=1).mean(axis=-1))
    made = item.summarised(values, SIZES)
    assert abs(made["MC"]["slope"] + 0.5) > 4 * 0.018


def test_repetitions_have_noise_of_their_own(values):
    assert np.unique(values["MC"][0]).size == REPEATS * PAIRS
    assert not np.allclose(
        smooth(jax.random.key(0), 8, ScrambledSobol()),
        smooth(jax.random.key(1), 8, ScrambledSobol()),
    )


def test_table_and_paragraph_hold_the_numbers(result):
    text = item.table(result)
    assert f"{result['problems']['sir']['MC']['rmse'][0]:.3g}" in text
    assert text.count("| yes |") >= 2
    said = item.paragraph(result)
    assert "they have both" in said
    assert "is not reproduced" in said
    worse = {**result["problems"]["sir"], "steeper": False, "paper_slope": True}
    said = item.paragraph({**result, "problems": {"sir": worse}})
    assert "NOT both" in said
    assert "is reproduced for SIR." in said
    assert "that rate belongs to smooth integrands" not in said


def test_only_what_is_not_reproduced_is_explained(result):
    found = {**result["problems"], "sir": {**result["problems"]["sir"], "paper_slope": True}}
    said = item.paragraph({**result, "problems": found})
    assert "is reproduced for SIR but not for linear regression: the noise has 3 dimensions" in said
    assert "Laplace noise is an unbounded function" in said
    assert "binomial counts" not in said
    assert "is not reproduced: the noise has" in item.paragraph(result)


def test_the_first_seed_has_the_keys_of_the_committed_result_and_others_have_others():
    first, other = (item.estimates(smooth, IndependentUniforms(), (8,), 2, seed) for seed in (1, 2))
    keys = [jax.random.fold_in(jax.random.key(1000), repeat) for repeat in range(2)]
    np.testing.assert_array_equal(first[0], [smooth(key, 8, IndependentUniforms()) for key in keys])
    assert not np.isclose(first, other).any()
    data = [
        jax.random.key_data(item.key_of(seed, number)).tolist()
        for seed in (0, 1, 2)
        for number in (0, 1, 100)
    ]
    assert len({tuple(each) for each in data}) == 9
    assert data[3:6] == [
        jax.random.key_data(jax.random.key(number)).tolist() for number in (0, 1, 100)
    ]


def test_the_seed_of_the_scale_is_used(monkeypatch):
    """`run` with nothing trained: the keys that reach training, pairs and noise differ between
    seeds.
    """
    seen = []

    class Method:
        def __init__(self, **_):
            pass

        def fit(self, key, model, progress):
            seen.append(jax.random.key_data(key).tolist())

    monkeypatch.setattr(item.nw.inference, "as_in_paper", lambda _name, **_: Method())
    monkeypatch.setattr(
        item,
        "loss_of",
        lambda fit, key, num: seen.append(jax.random.key_data(key).tolist()) or rough,
    )
    results = [
        item.run(dataclasses.replace(items.QUICK, seed=seed), items.silent) for seed in (1, 2)
    ]
    assert len({tuple(each) for each in seen}) == len(seen) == 8
    assert (
        results[0]["problems"]["sir"]["MC"]["rmse"] != results[1]["problems"]["sir"]["MC"]["rmse"]
    )


def test_the_figure_draws_both_kinds(result):
    figure = item.figure(result)
    assert [ax.get_title() for ax in figure.axes] == ["SIR", "linear regression"]
    np.testing.assert_allclose(
        figure.axes[0].lines[2].get_ydata(), result["problems"]["sir"]["RQMC"]["rmse"]
    )


def test_curves_that_flatten_are_told(result):
    """Slope -1 for the first half of six sizes and -.5 for the second, whose first point is the
    last of the other.
    """
    sizes = [8, 16, 32, 64, 128, 256]
    errors = [1.0, 0.5, 0.25, *(0.25 * 2.0 ** (-0.5 * k) for k in (1, 2, 3))]
    bent = {
        **result["problems"]["sir"],
        "RQMC": {**result["problems"]["sir"]["RQMC"], "rmse": errors},
    }
    said = item.paragraph({**result, "sizes": sizes, "problems": {"sir": bent}})
    assert "SIR -1.00 up to M = 32 and -0.50 from there on" in said
    assert "from there on" not in item.paragraph(result)
