"""No-U-turn chains of a method that can be stopped and resumed."""

from __future__ import annotations

import dataclasses

import jax
import numpy as np
from jaxtyping import Float

from noisewise._core.arrays import Array
from noisewise._core.json_files import reading
from noisewise.errors import FileFormatError
from noisewise.inference.contract.effects import blocks_of
from noisewise.inference.contract.run import InferenceRun, OutOfBudget
from noisewise.priors.prior import Prior
from noisewise.samplers.densities import LogDensity
from noisewise.samplers.hierarchies.no_u_turn import NutsState, nuts, state_structure

SEGMENT = 250
"""Draws of each chain between looks at R-hat and effective sizes."""
_TOO_COARSE = 0.005
"""Share of divergent trajectories in the first draws at which steps are halved: four times less
than what is not called exact.
"""
_MOST_HALVINGS = 3
"""Halvings of the step: with an eighth of it, draws take eight times as long."""


class Chains:
    """No-U-turn chains that are moved segment by segment, each recorded in the journal.

    Args:
        run: The run.
        key: JAX PRNG key.
        density: z (p,) -> unnormalised log density.
        prior: Its effects are centred by their shares.
        start: Where the chains begin, shape (c, p).
    """

    def __init__(
        self,
        run: InferenceRun,
        key: Array,
        density: LogDensity,
        prior: Prior,
        start: Float[np.ndarray, "c p"],
    ) -> None:
        self._run, self._key, self._density, self._start = run, key, density, start
        self._prior, self._blocks = prior, blocks_of(prior)
        self._state: NutsState | None = None
        self.divergent, self.gradients = 0, 0

    @property
    def has_effects(self) -> bool:
        """Whether there are effects to centre."""
        return bool(self._blocks)

    def tuned(self, num_warmup: int) -> dict[str, np.ndarray]:
        """The first draws, with steps halved, and draws dropped, as long as too many diverge: where
        a spread may be near 0, the step that suits most of the posterior is too long for its neck.
        """
        segment = self.segment(num_warmup)
        for _ in range(_MOST_HALVINGS):
            num = segment["z"].shape[0] * segment["z"].shape[1]
            if self.divergent <= _TOO_COARSE * num or self._state is None:
                break
            self._state = dataclasses.replace(self._state, step_size=0.5 * self._state.step_size)
            self.divergent = self.gradients = 0
            segment = self.segment(num_warmup)
        return segment

    def segment(self, num_warmup: int) -> dict[str, np.ndarray]:
        """The next draws, as a segment of a `Trace`; before the first ones the warm-up."""
        found = self._run.remember("chains", lambda: self._moved(num_warmup))
        with reading("The chains in the journal"):
            draws = found["draws"]
            if draws.shape[1:] != self._start.shape:
                raise FileFormatError("they have another shape.")
            self._state = self._state_from(found)
            self.divergent += int(found["divergent"])
            self.gradients += int(found["gradients"])
        if not len(draws):
            raise OutOfBudget
        return {"z": draws, "theta": self._prior.constrain(draws)}

    def _moved(self, num_warmup: int) -> dict[str, np.ndarray]:
        start = self._start if self._state is None else self._state
        found = nuts(
            self._key,
            self._density,
            start,
            blocks=self._blocks,
            num_warmup=num_warmup,
            num_draws=SEGMENT,
            progress=lambda done, total: self._run.out_of_time(),
        )
        numbers = {
            "draws": found.draws,
            "divergent": np.asarray(found.num_divergent),
            "gradients": np.asarray(found.num_gradients),
        }
        leaves = jax.tree.leaves(found.state)
        return numbers | {f"state_{i}": np.asarray(leaf) for i, leaf in enumerate(leaves)}

    def _state_from(self, arrays: dict[str, np.ndarray]) -> NutsState | None:
        """Where the chains were, None where a budget ended in the warm-up."""
        if "state_0" not in arrays:
            return None
        structure = state_structure(self._blocks, self._start.shape[1])
        leaves = [arrays[f"state_{i}"] for i in range(structure.num_leaves)]
        state: NutsState = jax.tree.unflatten(structure, leaves)
        return state
