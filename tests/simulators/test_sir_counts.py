"""The generators and samplers under the epidemic kernels: known words, exact laws, and planted
errors of 1% caught.
"""

import importlib.util

import jax
import numba
import numpy as np
import pytest
from scipy import stats

from noisewise.simulators import _counts, _counts_jax, xoshiro
from noisewise.simulators.xoshiro import key_words, next_word, seeded, uniform

kernel = numba.njit(
    error_model="numpy"
)  # not cached: a cached kernel would not see changes of what it calls

DRAWS = 200_000
ALPHA = 1e-4
BINOMIALS = [
    (20, 0.1),
    (12, 0.9),
    (19, 0.5),
    (90, 0.11),
    (91, 0.112),
    (1000, 0.3),
    (400, 0.8),
    (1_000_000, 5e-5),
]
POISSONS = [0.3, 4.0, 9.9, 10.1, 60.0, 2500.0]


@kernel
def draw_words(rng, out):
    for place in range(out.size):
        out[place], rng = next_word(rng)


@kernel
def draw_binomials(words, trials, p, out):
    rng = seeded(words, 0)
    for place in range(out.size):
        out[place], rng = _counts.binomial(rng, trials, p)


@kernel
def draw_poissons(words, mean, out):
    rng = seeded(words, 0)
    for place in range(out.size):
        out[place], rng = _counts.poisson(rng, mean)


@kernel
def draw_uniforms(words, index, out):
    rng = seeded(words, index)
    for place in range(out.size):
        out[place], rng = uniform(rng)


@kernel
def draw_first_uniforms(words, over_indices, over_keys):
    for index in range(over_indices.size):
        over_indices[index], _ = uniform(seeded(words, index))
        over_keys[index], _ = uniform(seeded(np.array([np.uint64(index), np.uint64(0)]), 5))


def words_of(seed):
    return key_words(jax.random.key(seed))


def binomials(seed, trials, p):
    out = np.empty(DRAWS)
    draw_binomials(words_of(seed), float(trials), p, out)
    return out


def poissons(seed, mean):
    out = np.empty(DRAWS)
    draw_poissons(words_of(seed), mean, out)
    return out


def chi_square_p_value(counts, law):
    """Of counts against a law on 0, 1, ..., with neighbouring values joined until each cell expects
    at least 20.
    """
    low, high = int(law.ppf(1e-5)), int(law.ppf(1 - 1e-5))
    edges = [low]
    while edges[-1] < high:
        inside = law.cdf(np.arange(edges[-1], high + 1)) - law.cdf(edges[-1])
        far = np.flatnonzero(inside * len(counts) >= 20)
        if not far.size:
            break
        edges.append(edges[-1] + int(far[0]))
    cdf = np.concatenate([[0.0], law.cdf(edges), [1.0]])
    expected = np.diff(cdf) * len(counts)
    observed = np.bincount(np.searchsorted(edges, counts), minlength=len(expected))
    keep = expected >= 5
    expected, observed = (np.append(x[keep], x[~keep].sum()) for x in (expected, observed))
    some = expected > 0
    statistic = ((observed - expected)[some] ** 2 / expected[some]).sum()
    return stats.chi2.sf(statistic, some.sum() - 1)


def test_xoshiro_gives_the_published_words():
    """The first words of xoshiro256++ from the state (1, 2, 3, 4), as its authors' C program prints
    them.
    """
    out = np.empty(6, dtype=np.uint64)
    draw_words(tuple(np.uint64(word) for word in (1, 2, 3, 4)), out)
    assert out.tolist() == [
        41943041,
        58720359,
        3588806011781223,
        3591011842654386,
        9228616714210784205,
        9973669472204895162,
    ]


def test_uniforms_are_uniform_and_strictly_inside():
    out = np.empty(DRAWS)
    draw_uniforms(words_of(1), 3, out)
    assert out.min() > 0.0
    assert out.max() < 1.0
    assert stats.kstest(out, "uniform").pvalue > ALPHA
    largest = (float((2**64 - 1) >> 12) + 0.5) * 2.0**-52
    assert 0.5 * 2.0**-52 > 0.0
    assert largest < 1.0


def test_generators_of_neighbours_are_unrelated():
    """First uniforms over indices, over keys, and their serial correlation: N(0, 1/n) under
    independence, 4 sd.
    """
    first, second = np.empty(20_000), np.empty(20_000)
    draw_first_uniforms(words_of(7), first, second)
    for values in (first, second):
        assert stats.kstest(values, "uniform").pvalue > ALPHA
        assert abs(np.corrcoef(values[1:], values[:-1])[0, 1]) < 4 / np.sqrt(20_000)
    assert len(np.unique(first)) == 20_000


def test_every_kind_of_key_gives_words():
    typed, raw = jax.random.key(3), jax.random.PRNGKey(3)
    assert key_words(typed).tolist() == key_words(raw).tolist()
    assert key_words(jax.random.key(3, impl="rbg")).shape == (4,)


@pytest.mark.parametrize(("trials", "p"), BINOMIALS)
def test_binomial_law_and_a_probability_off_by_one_percent(trials, p):
    assert chi_square_p_value(binomials(1, trials, p), stats.binom(trials, p)) > ALPHA
    assert chi_square_p_value(binomials(2, trials, 0.99 * p), stats.binom(trials, p)) < ALPHA


@pytest.mark.parametrize("mean", POISSONS)
def test_poisson_law_and_a_mean_off_by_one_percent(mean):
    """At a mean of .3 an error of 1% shifts 200,000 draws by 2.4 standard errors only: there the
    error is 5%.
    """
    error = 0.95 if mean < 1.0 else 0.99
    assert chi_square_p_value(poissons(1, mean), stats.poisson(mean)) > ALPHA
    assert chi_square_p_value(poissons(2, error * mean), stats.poisson(mean)) < ALPHA


def test_certain_counts_are_not_drawn():
    rng = seeded(words_of(0), 0)
    assert _counts.binomial(rng, 0.0, 0.5) == (0.0, rng)
    assert _counts.binomial(rng, 7.0, 0.0) == (0.0, rng)
    assert _counts.binomial(rng, 7.0, 1.0) == (7.0, rng)
    assert _counts.poisson(rng, 0.0) == (0.0, rng)


def test_large_counts_keep_mean_and_variance():
    """4 standard errors of the mean and of the variance, at counts of 10^9 and more."""
    trials, p = 10.0**10, 0.3
    for values, mean, variance in [
        (binomials(3, trials, p), trials * p, trials * p * (1 - p)),
        (poissons(4, 1e9), 1e9, 1e9),
    ]:
        z = (values - mean) / np.sqrt(variance)
        assert abs(z.mean()) < 4 / np.sqrt(DRAWS)
        assert abs(z.var() - 1.0) < 4 * np.sqrt(2 / DRAWS)
        assert (values == np.rint(values)).all()


@pytest.mark.slow
def test_jax_draws_follow_the_same_laws():
    """All settings in one call of one width; the planted error is in every probability and mean."""
    settings = [*BINOMIALS, (0, 0.5), (9, 0.0), (9, 1.0)]
    num = 20_000
    trials = np.repeat([float(n) for n, _ in settings], num)
    p = np.repeat([p for _, p in settings], num)
    means = np.repeat(POISSONS, num)

    with jax.enable_x64(True):
        keys = jax.jit(jax.random.split, static_argnums=1)(jax.random.key(5), len(trials))
        draw = jax.jit(lambda factor: _counts_jax.binomial(keys, trials, factor * p))
        sound, planted = np.asarray(draw(1.0)), np.asarray(draw(0.97))
        arrivals = jax.jit(lambda factor: _counts_jax.poisson(keys[: len(means)], factor * means))
        sound_arrivals, planted_arrivals = np.asarray(arrivals(1.0)), np.asarray(arrivals(0.97))

    laws = [stats.binom(n, p) for n, p in BINOMIALS]
    good = [chi_square_p_value(sound[k * num : (k + 1) * num], law) for k, law in enumerate(laws)]
    bad = [chi_square_p_value(planted[k * num : (k + 1) * num], law) for k, law in enumerate(laws)]
    laws = [stats.poisson(mean) for mean in POISSONS]
    good += [
        chi_square_p_value(sound_arrivals[k * num : (k + 1) * num], law)
        for k, law in enumerate(laws)
    ]
    bad += [
        chi_square_p_value(planted_arrivals[k * num : (k + 1) * num], law)
        for k, law in enumerate(laws)
    ]
    assert min(good) > ALPHA
    assert np.median(bad) < ALPHA
    rest = sound[len(BINOMIALS) * num :].reshape(3, num)
    assert np.array_equal(rest, np.repeat([[0.0], [0.0], [9.0]], num, axis=1))


def test_an_edit_of_a_shared_kernel_compiles_its_callers_again(tmp_path, monkeypatch):
    """Numba's own cache would go on serving the old program of an untouched file."""
    source = (
        "from noisewise.simulators.xoshiro import kernel\n\n\n@kernel\ndef one():\n    return 1\n"
    )
    (tmp_path / "caller.py").write_text(source)

    def misses():
        spec = importlib.util.spec_from_file_location("caller", tmp_path / "caller.py")
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        assert module.one() == 1
        return sum(module.one.stats.cache_misses.values())

    assert (misses(), misses()) == (1, 0)
    monkeypatch.setattr(xoshiro, "_DIGEST", "_edited")
    assert misses() == 1
