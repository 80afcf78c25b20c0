"""The laws every mechanism obeys, as functions that raise AssertionError: used on the catalogue and
on planted bugs.
"""

import dataclasses
import itertools

import jax
import numpy as np
from scipy.special import gamma as gamma_function
from scipy.stats import beta as beta_law
from scipy.stats import chi2, gamma

from noisewise.mechanisms import IndependentUniforms, ScrambledSobol
from noisewise.mechanisms.supports import Finite, Interval, Lattice, OrAbsent

POINTS = {"independent": IndependentUniforms(), "Sobol": ScrambledSobol()}
ALPHA = 1e-6
NUM_BINS = 20
NUM_SETS, NUM_POINTS = 64, 4096
"""2^18 draws of one column. A scale off by a share e gives n draws a noncentrality of at most n I
e^2, I being the Fisher information of the log scale: 1 for Laplace noise, 2 for Gaussian. At 2%
that is 105 and 210, of which 20 bins keep 91 and 170: caught with probability .995 and more at the
1e-6 quantile of chi^2_19, 63.7. Wider mechanisms repeat a formula that was tested with one column:
2^16 draws."""

_PANELS = 1500
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(8)

ROWS, KNOTS, NODES = 32, _PANELS + 1, 8 * _PANELS
"""The sizes of batches, few so that tests share compiled programs: compiling takes most of their
time.
"""


@dataclasses.dataclass(frozen=True)
class ColumnLaw:
    """The law of one column as its density implies: F at the knots, and atoms (all knots of a
    discrete law). The first knot may stand for absent, which is below every number.
    """

    knots: np.ndarray
    left: np.ndarray
    right: np.ndarray
    discrete: bool
    absent: bool = False

    @property
    def outputs(self):
        """The knots as private statistics."""
        return np.append(np.nan, self.knots[1:]) if self.absent else self.knots

    @property
    def total(self) -> float:
        return float(self.right[-1])

    def transform(self, values, rng):
        """F(y-) + V (F(y) - F(y-)) with uniform V: uniform when the values follow the law."""
        assert self.total > 0.0, "values where the law has none"
        values = np.where(np.isnan(values), self.knots[0], values) if self.absent else values
        slack = 1e-9 * np.abs(self.knots).max() if self.discrete else 0.0
        index = np.clip(
            np.searchsorted(self.knots, values + slack, side="right") - 1, 0, self.knots.size - 1
        )
        on_knot = np.abs(values - self.knots[index]) <= slack
        jump = self.left[index] + rng.random(values.shape) * (self.right - self.left)[index]
        following = np.minimum(index + 1, self.knots.size - 1)
        gap = np.maximum(self.knots[following] - self.knots[index], 1e-300)
        share = (values - self.knots[index]) / gap
        between = self.right[index] + share * (self.left[following] - self.right[index])
        return np.where(on_knot, jump, np.nan if self.discrete else between) / self.total


def column_supports(mechanism, k):
    return mechanism.support.columns(mechanism.output_width(k))


def column_law(mechanism, s, j):
    """The law of column j given the others, which are held at a typical value."""
    typical, reach = _typical(mechanism, s), _extremes(mechanism, s)[:, j]

    def density(values):
        outputs = _varied(typical, j, values)
        return np.exp(mechanism.log_prob(outputs, np.tile(s, (len(outputs), 1))))[: values.size]

    support = column_supports(mechanism, s.size)[j]
    if not isinstance(support, OrAbsent):
        return _published(support, density, reach.min(), reach.max(), s)
    reach = np.where(np.isnan(reach), support.above, reach)
    published = _published(support.present, density, reach.min(), reach.max(), s)
    possible = published.knots >= support.least()
    knots, left, right = (
        part[possible] for part in (published.knots, published.left, published.right)
    )
    mass = density(np.array([np.nan]))[0]
    return ColumnLaw(
        np.append(knots[0] - 1.0 if knots.size else 0.0, knots),
        np.append(0.0, mass + left),
        np.append(mass, mass + right),
        published.discrete,
        absent=True,
    )


def _published(support, density, low, high, s):
    """The law of numbers between two ends."""
    if isinstance(support, (Lattice, Finite)):
        points = _points(support, low, high)
        right = np.cumsum(density(points))
        return ColumnLaw(points, np.append(0.0, right[:-1]), right, discrete=True)
    if low == high:
        mass = density(np.array([low]))
        return ColumnLaw(np.array([low]), np.zeros(1), mass, discrete=True)
    atoms = np.zeros(2)
    if isinstance(support, Interval):
        low, high = max(low, support.low), min(high, support.high)
        finite = np.isfinite([support.low, support.high])
        atoms[finite] = density(np.array([support.low, support.high])[finite])
    kinks = s[(s > low) & (s < high)]
    knots = np.unique(np.concatenate([np.linspace(low, high, _PANELS + 1 - kinks.size), kinks]))
    half = np.diff(knots)[:, None] / 2
    nodes = (knots[1:] + knots[:-1])[:, None] / 2 + half * _NODES
    masses = (density(nodes.ravel()).reshape(nodes.shape) * half * _WEIGHTS).sum(-1)
    left = np.concatenate([[0.0], atoms[0] + np.cumsum(masses)])
    right = np.concatenate([[atoms[0]], left[1:]])
    right[-1] += atoms[1]
    return ColumnLaw(knots, left, right, discrete=False)


def at_uniforms(mechanism, s, levels):
    """The transport of a few rows of uniforms, padded to ROWS."""
    rows = np.full((ROWS, mechanism.num_uniforms(s.size)), 0.4)
    rows[: len(levels)] = levels
    return mechanism.transport(rows, np.tile(s, (ROWS, 1)))[: len(levels)]


def _typical(mechanism, s):
    return at_uniforms(mechanism, s, [[0.4]])[0]


def _extremes(mechanism, s):
    corners = list(itertools.product([1e-14, 1 - 1e-14], repeat=mechanism.num_uniforms(s.size)))
    return at_uniforms(mechanism, s, corners)


@jax.jit
def _log_sf(mechanism, s_dp, s):
    return mechanism._log_sf(s_dp, s)


def _varied(typical, j, values, rows=NODES):
    """Copies of `typical` with `values` in column j, padded to `rows`."""
    outputs = np.tile(typical, (max(rows, values.size), 1))
    outputs[: values.size, j] = values
    return outputs


def _points(support, low, high):
    if isinstance(support, Finite):
        return np.sort(support.values)
    if np.isfinite(support.low) and np.isfinite(support.high):
        low, high = support.low, support.high
    first = np.ceil(max(low, support.low) / support.step - 1e-6)
    last = np.floor(min(high, support.high) / support.step + 1e-6)
    return support.step * np.arange(first, last + 1)


def draws(mechanism, s, points, seed):
    sets = NUM_SETS if s.size == 1 else NUM_SETS // 4
    u = points.uniforms(jax.random.key(seed), sets, NUM_POINTS, mechanism.num_uniforms(s.size))
    return mechanism.transport(u.reshape(sets * NUM_POINTS, -1), s)


def assert_uniform(u):
    """Pearson's chi^2 over equal bins at level 1e-6; conservative for nets, which fill bins more
    evenly.
    """
    counts = np.histogram(u, bins=NUM_BINS, range=(0.0, 1.0))[0]
    assert counts.sum() == u.size, "values where the law has none"
    expected = u.size / NUM_BINS
    statistic = ((counts - expected) ** 2 / expected).sum()
    assert statistic <= chi2.isf(ALPHA, NUM_BINS - 1), f"chi^2 = {statistic:.1f}"


def assert_independent(first, second):
    """n times the squared means of phi_i(U) phi_j(V), i, j <= 2, phi the Legendre polynomials on
    (0,1): chi^2_4 at 1e-6.
    """
    phi = [
        np.stack([np.sqrt(3) * x, np.sqrt(5) * (1.5 * x**2 - 0.5)])
        for x in (2 * first - 1, 2 * second - 1)
    ]
    statistic = ((phi[0] @ phi[1].T) ** 2).sum() / first.size
    assert statistic <= chi2.isf(ALPHA, 4), f"columns depend on each other: chi^2 = {statistic:.1f}"


def transport_has_law_of_log_prob(mechanism, s, points, seed=0):
    values = draws(mechanism, s, points, seed)
    rng = np.random.default_rng(seed)
    transformed = [
        column_law(mechanism, s, j).transform(values[:, j], rng) for j in range(values.shape[-1])
    ]
    for u in transformed:
        assert_uniform(u)
    for pair in itertools.combinations(transformed, 2):
        assert_independent(*pair)


def euclidean_transport_has_its_law(mechanism, s, points, seed=0):
    """|Z| ~ Gamma(k), and z_1^2/|z|^2 ~ Beta(1/2, (k-1)/2) with a fair sign, independent of the length."""
    z = draws(mechanism, s, points, seed) - s
    length = np.linalg.norm(z, axis=-1)
    level = gamma(s.size).cdf(length / mechanism.scale)
    angle = beta_law(0.5, (s.size - 1) / 2).cdf((z[:, 0] / length) ** 2)
    signed = np.where(z[:, 0] > 0, 0.5 + angle / 2, 0.5 - angle / 2)
    for u in (
        level,
        signed,
        (level + signed) % 1.0,
        (level - z[:, -1] / np.abs(z[:, -1]) / 4) % 1.0,
    ):
        assert_uniform(u)


def density_has_mass_one(mechanism, s):
    """Within 1e-6, for outputs of one column: the law of one of several is only known up to a
    constant.

    `log_prob_adds_up_over_columns` carries it to several.
    """
    assert abs(column_law(mechanism, s, 0).total - 1.0) <= 1e-6


def log_prob_adds_up_over_columns(mechanism, s_dp, s):
    """log_prob of k columns is the sum of k values of one column, where columns are independent and
    k is free.
    """
    each = [mechanism.log_prob(s_dp[:, j : j + 1], s[:, j : j + 1]) for j in range(s.shape[-1])]
    np.testing.assert_allclose(
        mechanism.log_prob(s_dp, s), np.sum(each, axis=0), rtol=1e-13, atol=1e-13
    )


def radial_density_has_mass_one(mechanism, s, seed=0):
    """The density at s + r e, times the area of the sphere, integrated over r along seven
    directions e.
    """
    edges = np.linspace(0.0, 45.0 * mechanism.scale, 201)
    half = np.diff(edges)[:, None] / 2
    radii = ((edges[1:] + edges[:-1])[:, None] / 2 + half * _NODES).ravel()
    directions = np.random.default_rng(seed).normal(size=(7, 1, s.size))
    directions /= np.linalg.norm(directions, axis=-1, keepdims=True)
    outputs = np.tile(s, (NODES, 1))
    outputs[: 7 * radii.size] = (s + radii[:, None] * directions).reshape(-1, s.size)
    density = np.exp(mechanism.log_prob(outputs, np.tile(s, (NODES, 1))))[: 7 * radii.size].reshape(
        7, -1
    )
    area = 2 * np.pi ** (s.size / 2) / gamma_function(s.size / 2)
    masses = (density * area * radii ** (s.size - 1) * (half * _WEIGHTS).ravel()).sum(-1)
    np.testing.assert_allclose(masses, 1.0, rtol=0, atol=1e-6)


def cdf_is_the_sum_of_the_density(mechanism, s):
    """At the knots, where quadrature (or summation) is exact: F to 1e-9, and log F to 1e-6 where F
    > 1e-7.
    """
    for j in range(mechanism.output_width(s.size)):
        law = column_law(mechanism, s, j)
        outputs = _varied(_typical(mechanism, s), j, law.outputs, KNOTS)
        log_cdf = mechanism.log_cdf(outputs, s)[: law.knots.size, j]
        with jax.enable_x64(True):
            log_sf = np.asarray(_log_sf(mechanism, outputs, s))[: law.knots.size, j]
        expected = law.right / law.total
        np.testing.assert_allclose(np.exp(log_cdf), expected, rtol=0, atol=1e-9)
        np.testing.assert_allclose(np.exp(log_sf), 1 - law.left / law.total, rtol=0, atol=1e-9)
        visible = expected > 1e-7
        np.testing.assert_allclose(log_cdf[visible], np.log(expected[visible]), rtol=0, atol=1e-6)


def off_support(mechanism, s_dp, k):
    """s_dp with one column moved off the support, every way there is."""
    rows = []
    for j, support in enumerate(column_supports(mechanism, k)):
        moved = [np.nan, np.inf, -np.inf]
        if isinstance(support, OrAbsent):
            moved = [np.inf, -np.inf, support.above - 1e-3]
            support = support.present
        if isinstance(support, Lattice):
            moved += [s_dp[j] + 0.5 * support.step, s_dp[j] + 1e-3 * support.step]
            moved = moved if np.isfinite(s_dp[j]) else moved[:-2]
        if isinstance(support, (Lattice, Interval)):
            moved += [
                end + side
                for end, side in ((support.low, -1.0), (support.high, 1.0))
                if np.isfinite(end)
            ]
        if isinstance(support, Finite) and np.isfinite(s_dp[j]):
            moved += [s_dp[j] + 0.125]
        for value in moved:
            row = s_dp.copy()
            row[j] = value
            rows.append(row)
    return np.array(rows)
