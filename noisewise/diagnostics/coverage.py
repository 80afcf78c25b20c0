"""Do intervals hold the truth as often as they say?"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Executor
from typing import Any

from noisewise._core.arrays import Array
from noisewise.diagnostics.calibrate import calibrate
from noisewise.diagnostics.trials import PosteriorOf, Trials
from noisewise.model.private_model import PrivateModel

LEVELS = (0.5, 0.8, 0.95)


def coverage(
    key: Array,
    posterior_of: PosteriorOf | Trials,
    model: PrivateModel | None = None,
    num_trials: int | None = None,
    *,
    levels: Sequence[float] = LEVELS,
    num_draws: int | None = None,
    executor: Executor | None = None,
    progress: bool = True,
) -> Any:
    """How often the central intervals of each parameter hold the truth, over observations that the
    model makes: a table.

    One row per parameter and level, with columns `coverage`, its 95% Clopper-Pearson limits `low`
    and `high`, and `right`, whether they hold the level. Over many rows some 5% are wrong by
    chance: `calibrate`, which tests all at once, says whether that is too many. `posterior_of` is
    as in `calibrate`; 200 trials are drawn by default, with 100 draws each. The randomised ranks of
    `calibrate` count, so that the expected coverage is exact for any number of draws.

    Args:
        key: JAX PRNG key.
        posterior_of: What gives a posterior for each observation: a fit, a method, a function
            (key, observed), or `Trials` that `draw_trials` has drawn.
        model: The model; not needed with `Trials`.
        num_trials: Trials; 200 by default.
        num_draws: Draws of each posterior; 100 by default.
        levels: Probabilities of the intervals.
        executor: Where methods and functions run; None is this process.
        progress: Whether to show a progress bar.

    Returns:
        A `pandas.DataFrame`, as described above.

    >>> import jax, noisewise as nw
    >>> problem = nw.problems.gaussian_mean(1.0, bounds=None, noise="gaussian")
    >>> variance = 0.01 + problem.model.mechanism.scale ** 2
    >>> def exact(key, observed):
    ...     precision = 1 / 4 + 1 / variance
    ...     mean = observed / variance / precision
    ...     return mean + jax.random.normal(key, (100, 1)) / precision**0.5
    >>> coverage(jax.random.key(0), exact, problem.model)["right"].tolist()
    [True, True, True]
    """
    found = calibrate(
        key,
        posterior_of,
        model,
        num_trials,
        num_draws=num_draws,
        executor=executor,
        progress=progress,
    )
    return found.coverage(levels)
