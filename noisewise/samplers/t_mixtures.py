r"""Mixtures of multivariate t laws, fitted to weighted draws so that no mode once seen is lost.

    q(z) = sum_c share_c t_5(z; mean_c, scale_c)

Components are added one by one where the target is largest relative to the fit so far, and kept if
they explain the other half of the draws better.
"""

from __future__ import annotations

import dataclasses

import numpy as np
from jaxtyping import Bool, Float, Int
from scipy.special import gammaln

from noisewise._core.arrays import Array
from noisewise._core.keys import generator
from noisewise._core.weights import systematic_rows

FREEDOM = 5.0
"""Degrees of freedom of the t laws: heavier tails than most targets, and still a variance."""

_WIDENING = 1.25
"""Scale matrices, as a multiple of those fitted: too wide costs little, too narrow spoils
weights.
"""

_MAX_COMPONENTS = 8
"""Components: enough for a few separate modes, each of a bent shape."""

_MATTERING_PER_DIMENSION = 20
"""Draws per dimension that must matter: weights are tempered until they do, so that no fit
collapses on one draw.
"""

_NEIGHBOURS_PER_DIMENSION = 5
"""Draws per dimension around a new centre that give its first covariance: a covariance of 5 d draws
is known to within a factor of 2.
"""

_ANCHOR_PER_DIMENSION = 3.0
"""Draws per dimension that the first covariance of a component counts for: a covariance of 3 d
draws is itself known to a factor of 2.
"""

_NUM_ITERATIONS = 6
"""Steps of expectation maximisation after each new component: shares and means hardly move after
that.
"""

_MAX_TRIES = 2
"""Places tried for a new component before the mixture is left as it is."""

_MAX_ROWS = 3000
"""Draws that a fit works with, at most; of more, some are chosen by their weights. A covariance of
3,000 draws is known to 3%.
"""

_MAX_ROWS_OF_DARING = 600
"""The same for exploring, where many quick fits are worth more than few good ones."""

_MIN_POWER = 1e-6
"""Power at which tempering gives up: all weights are then equal."""

_RIDGE = 1e-10
"""Added to covariances, as a share of their diagonal: only keeps them positive definite."""


@dataclasses.dataclass(frozen=True)
class TMixture:
    """A mixture of multivariate t laws with 5 degrees of freedom.

    Attributes:
        log_shares: Log shares of the components, shape (c,).
        means: Their means, shape (c, p).
        roots: Cholesky factors of their scale matrices, shape (c, p, p).
    """

    log_shares: Float[np.ndarray, " c"]
    means: Float[np.ndarray, "c p"]
    roots: Float[np.ndarray, "c p p"]

    @property
    def num_components(self) -> int:
        """How many laws are mixed."""
        return len(self.log_shares)

    def sample(self, key: Array, num: int) -> Float[np.ndarray, "num p"]:
        """Independent draws."""
        rng, dim = generator(key), self.means.shape[1]
        which = rng.choice(self.num_components, num, p=np.exp(self.log_shares))
        normal = (
            rng.normal(size=(num, dim)) / np.sqrt(rng.chisquare(FREEDOM, num) / FREEDOM)[:, None]
        )
        return self.means[which] + np.einsum("nij,nj->ni", self.roots[which], normal)

    def log_parts(self, z: Float[np.ndarray, "n p"]) -> Float[np.ndarray, "c n"]:
        """Log share plus log density of each component."""
        return self.log_shares[:, None] + t_log_density(self.distances(z), self.roots)

    def distances(self, z: Float[np.ndarray, "n p"]) -> Float[np.ndarray, "c n"]:
        """Squared Mahalanobis distances from each component."""
        return _squares(z, self.means, np.linalg.inv(self.roots))

    def log_prob(self, z: Float[np.ndarray, "n p"]) -> Float[np.ndarray, " n"]:
        """The log density."""
        return _log_sum(self.log_parts(z))[0]


def t_log_density(
    distances: Float[np.ndarray, "c n"], roots: Float[np.ndarray, "c p p"]
) -> Float[np.ndarray, "c n"]:
    """Log densities of t laws at squared Mahalanobis distances from their centres."""
    dim = roots.shape[-1]
    constant = (
        gammaln((FREEDOM + dim) / 2) - gammaln(FREEDOM / 2) - dim / 2 * np.log(FREEDOM * np.pi)
    )
    log_root = np.log(np.diagonal(roots, axis1=1, axis2=2)).sum(axis=1)
    return constant - log_root[:, None] - (FREEDOM + dim) / 2 * np.log1p(distances / FREEDOM)


def fitted_mixture(
    z: Float[np.ndarray, "n p"],
    log_weights: Float[np.ndarray, " n"],
    log_density: Float[np.ndarray, " n"],
    *,
    max_components: int = _MAX_COMPONENTS,
    daring: bool = False,
) -> TMixture:
    """The mixture fitted to weighted draws.

    Args:
        z: Draws, finite, shape (n, p).
        log_weights: Their log weights, target over the law that they are from, shape (n,); at least
            one above -inf.
        log_density: The log of the target, up to a constant, shape (n,): new components start where
            it exceeds the fit the most.
        max_components: How many components at most.
        daring: Whether a few lucky draws may have a component of their own, which is right for
            exploring. Otherwise each component has to explain draws that it was not fitted to.

    Returns:
        A mixture with scale matrices a quarter wider than fitted.
    """
    weights = tempered(log_weights, _MATTERING_PER_DIMENSION * z.shape[1])
    most = _MAX_ROWS_OF_DARING if daring else _MAX_ROWS
    if len(z) > most:
        rows, counts = np.unique(systematic_rows(weights, most, 0.5), return_counts=True)
        z, weights, log_density = z[rows], counts / most, log_density[rows]
    everything = _Fit(z, weights, log_density)
    if daring:
        found = _with_all_components(everything, everything, max_components)
        return TMixture(found.log_shares, found.means, np.sqrt(_WIDENING) * found.roots)
    found = everything.first()
    if max_components > 1 and weights[::2].any() and weights[1::2].any():
        half, other = (
            _Fit(z[part], weights[part] / weights[part].sum(), log_density[part])
            for part in (slice(0, None, 2), slice(1, None, 2))
        )
        parts = _with_all_components(half, other, max_components)
        if parts.num_components > 1:
            everything.anchors = half.anchors
            found = everything.improved(parts)
    return TMixture(found.log_shares, found.means, np.sqrt(_WIDENING) * found.roots)


def _with_all_components(fit: _Fit, judge: _Fit, most: int) -> TMixture:
    """The fit with every component that pays, by the likelihood of the judge's draws: more than
    its standard error if these are others, else more than its parameters cost by BIC.
    """
    best = fit.improved(fit.first())
    log_prob = best.log_prob(judge.z)
    tries, avoided = 0, np.zeros(len(fit.z), dtype=bool)
    while best.num_components < most and tries < _MAX_TRIES and not avoided.all():
        centre = fit.largest_excess(best, avoided)
        more = fit.improved(fit.with_component(best, centre))
        gain = judge.weights * (more.log_prob(judge.z) - log_prob)
        needed = fit.price if judge is fit else np.sqrt(np.sum(gain**2))
        if gain.sum() > needed:
            best, log_prob, tries = more, more.log_prob(judge.z), 0
        else:
            tries += 1
            avoided[fit.near(best, centre)] = True
    fit.anchors = fit.anchors[: best.num_components]
    return best


def widened(
    mixture: TMixture,
    z: Float[np.ndarray, "n p"],
    log_weights: Float[np.ndarray, " n"],
    log_start: Float[np.ndarray, " n"],
    power: float,
) -> TMixture:
    """A mixture with each component refitted to start^(1 - power) component^power.

    Where a density is only known through noisy estimates, more draws are needed away from the
    modes, where the estimates vary more; the shares of the components stay.

    Args:
        mixture: Fitted to the weighted draws.
        z: Draws, shape (n, p).
        log_weights: Their log weights, shape (n,).
        log_start: The log density of the wide law, as the prior is, shape (n,).
        power: In (0, 1].
    """
    distances = mixture.distances(z)
    log_laws = t_log_density(distances, mixture.roots)
    log_parts = mixture.log_shares[:, None] + log_laws
    log_of_parts = log_weights + log_parts - _log_sum(log_parts)[0]
    dim, means, roots = z.shape[1], [], []
    for log_part, log_law, mean, root in zip(
        log_of_parts, log_laws, mixture.means, mixture.roots, strict=True
    ):
        log_wide = log_part + (power - 1.0) * (log_law - log_start)
        part = tempered(log_wide, _MATTERING_PER_DIMENSION * dim)
        size = 1.0 / np.sum(part**2)
        known = size / (size + _ANCHOR_PER_DIMENSION * dim)
        centre = known * (part @ z) + (1.0 - known) * mean
        scatter = _covariance(z - part @ z, part)
        scale = known * scatter + (1.0 - known) * root @ root.T
        means.append(centre)
        roots.append(np.linalg.cholesky(scale + _RIDGE * np.diag(np.diag(scale))))
    return TMixture(mixture.log_shares, np.stack(means), np.stack(roots))


def tempered(log_weights: Float[np.ndarray, " n"], num: float) -> Float[np.ndarray, " n"]:
    """Normalised weights, raised to the largest power at which `num` draws matter, or a quarter of
    all.
    """
    needed = min(num, len(log_weights) / 4)
    power, steps = 1.0, log_weights - log_weights.max()
    while True:
        weights = np.exp(power * steps)
        total = weights.sum()
        if total**2 >= needed * (weights @ weights) or power < _MIN_POWER:
            return weights / total
        power *= 0.8


class _Fit:
    """Weighted draws, and the steps of a fit to them."""

    def __init__(self, z: np.ndarray, weights: np.ndarray, log_density: np.ndarray) -> None:
        self.z, self.weights, self.log_density = z, weights, log_density
        self.size = 1.0 / np.sum(weights**2)
        dim = z.shape[1]
        self.price = (dim * (dim + 3) / 2 + 1) / 2 * np.log(max(self.size, 2.0)) / self.size
        self.num_neighbours = min(len(z), _NEIGHBOURS_PER_DIMENSION * dim + 1)
        mean = weights @ z
        self.covariance = _covariance(z - mean, weights)
        self.tiny = _RIDGE * np.diag(np.maximum(np.diag(self.covariance), 1e-200))
        self.anchors = [self.covariance]

    def first(self) -> TMixture:
        """One component with the moments of all draws."""
        root = _root(self.covariance, self.tiny)
        return TMixture(np.zeros(1), (self.weights @ self.z)[None], root[None])

    def largest_excess(self, mixture: TMixture, avoided: Bool[np.ndarray, " n"]) -> int:
        """The draw at which the target is largest relative to the mixture."""
        excess = self.log_density - mixture.log_prob(self.z)
        return int(np.argmax(np.where(avoided, -np.inf, excess)))

    def with_component(self, mixture: TMixture, centre: int) -> TMixture:
        """The mixture with a component more, shaped like the draws next to one of them."""
        near = self.near(mixture, centre)
        local = _covariance(self.z[near] - self.z[centre], np.full(len(near), 1.0 / len(near)))
        self.anchors = [*self.anchors[: mixture.num_components], local]
        root = _root(local, self.tiny)
        share = max(float(self.weights[near].sum()), 1.0 / self.size)
        share = min(share, 0.5)
        return TMixture(
            np.append(mixture.log_shares + np.log1p(-share), np.log(share)),
            np.concatenate([mixture.means, self.z[centre][None]]),
            np.concatenate([mixture.roots, root[None]]),
        )

    def near(self, mixture: TMixture, centre: int) -> Int[np.ndarray, " m"]:
        """The draws nearest to one of them, in the shape of the widest component."""
        widest = int(np.argmax(np.diagonal(mixture.roots, axis1=1, axis2=2).prod(axis=1)))
        inverse = np.linalg.inv(mixture.roots[widest])
        return np.argsort(_squares(self.z, self.z[[centre]], inverse[None])[0])[
            : self.num_neighbours
        ]

    def improved(self, mixture: TMixture) -> TMixture:
        """Expectation maximisation. Covariances known from few draws are drawn towards those of
        unweighted draws around the first centre, so that none collapses.
        """
        dim, log_shares, means, roots = self.z.shape[1], *_arrays(mixture)
        anchors = np.stack(self.anchors[: len(log_shares)])
        for _ in range(_NUM_ITERATIONS):
            distances = _squares(self.z, means, np.linalg.inv(roots))
            log_parts = log_shares[:, None] + t_log_density(distances, roots)
            of_parts = self.weights * _log_sum(log_parts)[1]
            totals = np.maximum(of_parts.sum(axis=1), 1e-300)
            # draws far from a component count less, as its heavy tails explain them
            near = of_parts * (FREEDOM + dim) / (FREEDOM + distances)
            means = (near @ self.z) / np.maximum(near.sum(axis=1), 1e-300)[:, None]
            sizes = totals**2 / np.maximum(np.sum(of_parts**2, axis=1), 1e-300)
            known = (sizes / (sizes + _ANCHOR_PER_DIMENSION * dim))[:, None, None]
            steps = self.z - means[:, None]
            scatter = np.swapaxes(steps * (near / totals[:, None])[..., None], 1, 2) @ steps
            roots = _root(known * scatter + (1.0 - known) * anchors, self.tiny)
            shares = np.maximum(totals, 1e-6)
            log_shares = np.log(shares / shares.sum())
        return TMixture(log_shares, means, roots)


def _root(
    scales: Float[np.ndarray, "*c p p"], tiny: Float[np.ndarray, "p p"]
) -> Float[np.ndarray, "*c p p"]:
    """Cholesky roots of scale matrices. Where draws are so few that one has nearly all weight,
    `tiny` may be below the rounding of a matrix around another: it then gets a ridge of its own.
    """
    try:
        return np.linalg.cholesky(scales + tiny)
    except np.linalg.LinAlgError:
        own = np.diagonal(scales, axis1=-2, axis2=-1)[..., None] * np.eye(len(tiny))
        return np.linalg.cholesky(scales + tiny + _RIDGE * own)


def _log_sum(log_parts: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The log of the sum over parts (c, n), shape (n,), and the share of each part; quicker than
    SciPy's, which is called thousands of times otherwise.
    """
    top = log_parts.max(axis=0)
    parts = np.exp(log_parts - top)
    total = parts.sum(axis=0)
    return top + np.log(total), parts / total


def _arrays(mixture: TMixture) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    return mixture.log_shares, mixture.means, mixture.roots


def _squares(z: np.ndarray, means: np.ndarray, inverses: np.ndarray) -> np.ndarray:
    """Squared lengths of (z - mean) inverse^T, (c, n)."""
    return np.sum(((z - means[:, None]) @ np.swapaxes(inverses, 1, 2)) ** 2, axis=2)


def _covariance(steps: np.ndarray, weights: np.ndarray) -> np.ndarray:
    return (weights[:, None] * steps).T @ steps
