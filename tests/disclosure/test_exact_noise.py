"""Exact samplers: their law against the densities, no floating-point generator in reach, checked
privacy maps.
"""

import ast
import itertools
import math
import subprocess
import sys
from fractions import Fraction
from pathlib import Path

import jax
import numpy as np
import pytest
from scipy.stats import chi2, ncx2

import noisewise as nw
from noisewise.disclosure import exact_noise
from noisewise.disclosure.exact_mechanisms import Columns, exact_sampler
from noisewise.disclosure.exact_noise import in_steps, whole_steps
from noisewise.errors import MissingDependencyError, ReleaseError

pytest.importorskip("opendp")
m = nw.mechanisms
ALPHA = 1e-6
# Exact noise has no seed. A 2% error must be seen with power .99; the 3% error that a test shows to
# be seen is missed
# with probability below 1e-6, so that the test does not fail by chance.
SEEN, SHOWN = 1.02, 1.03
WIDER = (1.04, 1.06)
"""Errors twice as large, which the fast suite sees with a quarter of the draws."""


def drawn(mechanism, integers, step):
    """One release of integers of one step."""
    return exact_sampler(mechanism, Columns(len(integers), (step,), (None,)))(integers)


def pmf(mechanism, outputs, s):
    return np.exp(mechanism.log_prob(np.asarray(outputs, float)[:, None], np.asarray(s, float)))


def grouped(probabilities, num_cells):
    """Consecutive outputs in cells of similar probability: the cell of each output."""
    before = np.cumsum(probabilities) - probabilities / 2
    return np.minimum((before / before[-1] * num_cells).astype(int), num_cells - 1)


def chi_square(counts, probabilities):
    """The p-value that counts have these cell probabilities."""
    expected = counts.sum() * probabilities
    return chi2.sf(((counts - expected) ** 2 / expected).sum(), len(counts) - 1)


def power(right, wrong, num_draws):
    """The chance that the chi-square test at ALPHA sees draws of one law and the density of
    another.
    """
    noncentrality = num_draws * ((right - wrong) ** 2 / wrong).sum()
    return ncx2.sf(chi2.isf(ALPHA, len(right) - 1), len(right) - 1, noncentrality)


STEP = 0.25
LATTICE = STEP * np.arange(-400, 401)
COUNTS = np.arange(6.0)
# Each law as a function of the error in one parameter, its outputs, s, the number of draws and of
# cells.
LAWS = {
    "discrete laplace": (
        lambda e: m.DiscreteLaplace(0.7 * e, 1.0, STEP),
        LATTICE,
        STEP,
        240_000,
        6,
    ),
    "discrete gaussian": (
        lambda e: m.DiscreteGaussian(0.7 * e, 1.0, STEP),
        LATTICE,
        STEP,
        170_000,
        6,
    ),
    "padded binomial": (lambda e: m.PaddedBinomial(5, 2.5 * e, 9, 1), COUNTS, 0.0, 350_000, 3),
    "randomized response": (lambda e: m.RandomizedResponse(3, 0.7 * e), COUNTS[:3], 1.0, 65_000, 3),
}


@pytest.mark.parametrize(
    ("errors", "share"),
    [(WIDER, 0.28), pytest.param((SEEN, SHOWN), 1.0, marks=pytest.mark.slow)],
    ids=["4%", "2%"],
)
@pytest.mark.parametrize("name", LAWS)
def test_released_noise_has_the_law_of_log_prob(name, errors, share):
    law, outputs, s, num_draws, num_cells = LAWS[name]
    num_draws = round(share * num_draws)
    mechanism = law(1.0)
    probabilities = pmf(mechanism, outputs, [s])
    cells = grouped(probabilities, num_cells)
    right, seen, shown = (
        np.bincount(cells, pmf(law(error), outputs, [s])) for error in (1.0, *errors)
    )
    assert probabilities.sum() == pytest.approx(1.0, abs=1e-12)
    assert power(right, seen, num_draws) >= 0.99
    assert power(right, shown, num_draws) >= 1 - 1e-6

    step = outputs[1] - outputs[0]
    columns = mechanism.width or num_draws
    draw, integers = (
        exact_sampler(mechanism, Columns(columns, (step,), (None,))),
        [round(s / step)] * columns,
    )
    values = np.array([value for _ in range(num_draws // columns) for value in draw(integers)])
    index = np.searchsorted(outputs, values - step / 2)
    assert np.array_equal(outputs[index], values)
    counts = np.bincount(cells[index], minlength=num_cells)
    assert chi_square(counts, right) > ALPHA
    assert chi_square(counts, shown) < ALPHA


@pytest.mark.slow
def test_exponential_choice_has_the_law_of_the_exponential_mechanism_and_not_of_permute_and_flip():
    candidates, utilities, num_draws = np.arange(20.0), [8] + [0] * 19, 50_000
    cells = np.repeat([0, 1, 2], [1, 9, 10])
    laws = [
        m.ExponentialMechanism(candidates, scale=error, sensitivity=1.0)
        for error in (1.0, SEEN, SHOWN)
    ]
    right, seen, shown = (
        np.bincount(cells, pmf(law, candidates, 0.5 * np.array(utilities))) for law in laws
    )
    # Permute-and-flip takes the best candidate when it comes up, unless one of those before it was
    # taken.
    best = np.mean([(1 - math.exp(-4.0)) ** before for before in range(20)])
    flip = np.array([best, (1 - best) * 9 / 19, (1 - best) * 10 / 19])
    assert power(right, seen, num_draws) >= 0.99
    assert power(right, shown, num_draws) >= 1 - 1e-6
    assert power(right, flip, num_draws) >= 1 - 1e-6

    draw = exact_sampler(laws[0], Columns(20, (0.5,), (None,)))
    counts = np.bincount(cells[[int(draw(utilities)[0]) for _ in range(num_draws)]], minlength=3)
    assert chi_square(counts, right) > ALPHA
    assert chi_square(counts, shown) < ALPHA
    assert chi_square(counts, flip) < ALPHA


def test_clamped_rounds_and_clips_as_its_log_prob_says():
    inner = m.DiscreteLaplace(2.0, 1.0, 0.5)
    mechanism = m.Clamped(inner, low=-3.0, high=3.0, step=1.5)
    forgotten = m.Clamped(inner, low=-4.5, high=4.5, step=1.5)
    outputs, num_draws = 1.5 * np.arange(-2, 3), 10_000
    values = np.array(drawn(mechanism, [1] * num_draws, 0.5))
    counts = np.array([np.sum(values == output) for output in outputs])
    right = pmf(mechanism, outputs, [0.5])
    assert counts.sum() == num_draws
    assert right.sum() == pytest.approx(1.0, abs=1e-12)
    assert chi_square(counts, right) > ALPHA
    missing = pmf(forgotten, outputs, [0.5])
    assert chi_square(counts, missing / missing.sum()) < ALPHA


def test_product_draws_blocks_in_order():
    sure = 1e-3
    blocks = [m.DiscreteLaplace(sure, 1.0), m.ExponentialMechanism((5.0, 7.0), scale=sure)]
    mechanism = m.Product([*blocks, m.DiscreteLaplace(sure, 1.0, 0.5)], widths=[2, 2, 1])
    columns = Columns(5, (1.0, 1.0, 1.0, 1.0, 0.5), (None,) * 5)
    assert exact_sampler(mechanism, columns)([3, -4, 0, 10, 5]) == [3.0, -4.0, 7.0, 2.5]


@pytest.mark.parametrize(
    ("spent", "num_draws"), [(1.1, 21_500), pytest.param(1.05, 85_000, marks=pytest.mark.slow)]
)
def test_overspending_is_caught_in_released_noise(spent, num_draws):
    """The event s_dp <= 0 has log ratio epsilon = 2, estimated with sd 2.73/sqrt N; the bound gives
    15/sqrt N away.

    An excess of 2 e is missed with probability Phi(-(2 e sqrt N - 15)/2.73): below 1e-6 with
    N = 85,000 for 5%, and with N = 21,500 for 10%.
    """

    def sampler(scale):
        mechanism = m.DiscreteLaplace(scale, 1.0)
        return lambda key, s: np.array(drawn(mechanism, s[:, 0].astype(int).tolist(), 1.0))[:, None]

    bounds = [
        nw.audit.epsilon_lower_bound(
            jax.random.key(0),
            sampler(scale),
            [0.0],
            [1.0],
            event=lambda y: y[:, 0] <= 0,
            num_draws=num_draws,
        )
        for scale in (0.5, 0.5 / spent)
    ]
    assert [bound.refutes(2.0) for bound in bounds] == [False, True]


@pytest.mark.parametrize("probability", [Fraction(1, 3), Fraction(0.1)])
def test_bernoulli_draws_below_the_numerator(probability, monkeypatch):
    answers = iter([probability.numerator - 1, probability.numerator])
    asked = []
    monkeypatch.setattr(
        exact_noise.secrets, "randbelow", lambda n: asked.append(n) or next(answers)
    )
    assert [exact_noise.bernoulli(probability) for _ in range(2)] == [True, False]
    assert asked == [probability.denominator] * 2


def test_padded_binomial_uses_the_exact_fraction(monkeypatch):
    """Numbers below the numerator count; the denominator is the same for all counts, so that it
    tells nothing of them.
    """
    pad, asked = Fraction(0.1), []
    parts = pad.denominator
    answers = iter([(7 + pad) * parts - 1, (7 + pad) * parts] * 2)
    monkeypatch.setattr(
        exact_noise.secrets, "randbelow", lambda n: asked.append(n) or next(answers)
    )
    assert exact_noise.padded_binomial(trials=4, padding=0.1, population=9)([7]) == [2]
    assert asked == [(9 + 2 * pad) * parts] * 4


def test_steps_round_to_the_private_side():
    rng = np.random.default_rng(0)
    for value, step in rng.lognormal(0.0, 3.0, (500, 2)):
        steps = in_steps(value, step)
        assert Fraction(steps) * Fraction(step) >= Fraction(value)
        assert steps == pytest.approx(value / step, rel=1e-15)
    for n, step in itertools.product(range(1, 50), (0.1, 0.01, 1 / 3, 1e-7)):
        assert whole_steps(n * step, step) == n
        assert whole_steps((n + 0.5) * step, step) == n
    assert math.floor(0.3 / 0.1) == 2  # what the slack is for


# Nothing floating in reach ------------------------------------------------------------------------

PACKAGE = Path(exact_noise.__file__).parent
FORBIDDEN = {"random", "sample", "transport", "default_rng", "Generator", "PRNGKey", "rvs"}


def offences(source):
    """Names in a module that could lead to a floating-point generator."""
    found = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            modules = [alias.name for alias in node.names] + [getattr(node, "module", None) or ""]
            found += [
                part
                for name in modules
                for part in name.split(".")
                if part in FORBIDDEN | {"jax", "scipy"}
            ]
        elif isinstance(node, ast.Attribute) and node.attr in FORBIDDEN:
            found.append(node.attr)
        elif isinstance(node, ast.Name) and node.id in FORBIDDEN:
            found.append(node.id)
    return found


@pytest.mark.parametrize(
    "file",
    ["exact_noise.py", "exact_mechanisms.py", "preparation.py", "curator.py", "publication.py"],
)
def test_release_code_names_no_generator(file):
    assert offences((PACKAGE / file).read_text()) == []


def test_the_search_for_generators_finds_them():
    planted = [
        "import jax",
        "import numpy as np\nx = np.random.laplace()",
        "mechanism.sample(key, s)",
        "import random",
    ]
    assert all(offences(source) for source in planted)


def test_exact_noise_loads_neither_numpy_nor_jax():
    code = (
        "import sys, noisewise.disclosure.exact_noise as e; print('numpy' in sys.modules, 'jax' in"
        " sys.modules);e.discrete_laplace(2.0, sensitivity=1, epsilon=1.0)([1]);"
        " e.randomized_response(num_categories=2, truth_probability=0.75)([1]); print('jax' in"
        " sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        cwd=PACKAGE.parent.parent,
        check=True,
    )
    assert done.stdout.split() == ["False"] * 3


# Refusals -----------------------------------------------------------------------------------------

laplace = {"sensitivity": 1, "epsilon": 1.0}
REFUSED = {
    "no noise": lambda: exact_noise.discrete_laplace(0.0, **laplace),
    "nan noise": lambda: exact_noise.discrete_gaussian(math.nan, sensitivity=1.0, rho=1.0),
    "infinite noise": lambda: exact_noise.discrete_gaussian(math.inf, sensitivity=1.0, rho=1.0),
    "vast noise": lambda: exact_noise.discrete_laplace(2.0**46, **laplace),
    "laplace overspends": lambda: exact_noise.discrete_laplace(0.999, **laplace),
    "gaussian overspends": lambda: exact_noise.discrete_gaussian(0.999, sensitivity=1.0, rho=0.5),
    "choice overspends": lambda: exact_noise.exponential_choice(1.999, sensitivity=1, epsilon=1.0),
    "tiny noise": lambda: exact_noise.discrete_gaussian(1e-300, sensitivity=1.0, rho=1e300),
    "floats": lambda: exact_noise.discrete_laplace(1.0, **laplace)([1.0]),
    "booleans": lambda: exact_noise.discrete_laplace(1.0, **laplace)([True]),
    "numpy integers": lambda: exact_noise.discrete_laplace(1.0, **laplace)([np.int64(1)]),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refuses(name):
    with pytest.raises(ReleaseError):
        REFUSED[name]()


def test_exact_calibration_passes_the_privacy_map():
    exact_noise.discrete_laplace(1.0, sensitivity=1, epsilon=1.0)
    exact_noise.discrete_gaussian(1.0, sensitivity=1.0, rho=0.5)
    exact_noise.exponential_choice(2.0, sensitivity=1, epsilon=1.0)


SURE = {"sensitivity": 0, "epsilon": 1.0}
OUTSIDE = {
    "laplace": (exact_noise.discrete_laplace(1e-3, **SURE), exact_noise.LARGEST),
    "gaussian": (
        exact_noise.discrete_gaussian(1e-2, sensitivity=0.0, rho=1.0),
        exact_noise.LARGEST,
    ),
    "binomial": (exact_noise.padded_binomial(trials=40, padding=1e-9, population=5), 40),
    "response": (exact_noise.randomized_response(num_categories=3, truth_probability=1.0), 2),
}


@pytest.mark.parametrize("name", OUTSIDE)
def test_integers_outside_the_public_range_count_as_its_ends(name):
    """To refuse them would tell that they are there. Without noise to speak of the ends come out."""
    sample, top = OUTSIDE[name]
    assert sample([2**51 + 1, 2**80, 10**400]) == [top] * 3
    assert set(sample([-(2**51) - 1, -(10**400)])) <= {0, -exact_noise.LARGEST}


def test_a_choice_between_utilities_outside_the_range():
    choose = exact_noise.exponential_choice(1.0, sensitivity=1, epsilon=2.0)
    assert choose([-(10**400), 10**400, 0]) == [1]


def test_errors_of_opendp_are_neither_shown_nor_chained():
    def fails(integers):
        raise ValueError(f"{integers} is not representable")

    with pytest.raises(ReleaseError) as caught:
        exact_noise._invoke(fails, [31337])
    assert "31337" not in str(caught.value)
    assert caught.value.__context__ is None


def test_missing_opendp_names_the_install_line(monkeypatch):
    monkeypatch.setitem(sys.modules, "opendp.prelude", None)
    with pytest.raises(MissingDependencyError, match=r'pip install "noisewise\[release\]"'):
        exact_noise.discrete_laplace(1.0, **laplace)
