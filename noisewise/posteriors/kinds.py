"""What may be found while a posterior is made, and why the work may end: one name each."""

from __future__ import annotations

import enum


class Kind(enum.StrEnum):
    """What a reader of a posterior may have to know. Files hold these names, so they stay."""

    # simulations and budgets
    STATED = "stated"
    """A text without a kind of its own: from files of earlier versions, or from a user."""
    SURPRISING_OBSERVATION = "surprising observation"
    SIMULATIONS_REJECTED = "simulations rejected"
    SIMULATIONS_DROPPED = "simulations dropped"
    SIMULATIONS_IMPOSSIBLE = "simulations impossible"
    ONLY_PRIOR_DRAWS = "only prior draws"
    TARGET_NOT_REACHED = "target not reached"
    DENSITY_NOT_SAVED = "density not saved"
    DENSITY_NEEDS_PRIOR = "density needs the prior"

    # weights, particles and chains
    WEIGHTS_POOR = "weights poor"
    WEIGHTS_UNSTEADY = "weights unsteady"
    TAILS_UNSTEADY = "tails unsteady"
    DRAWS_THAT_ADAPTED = "draws that adapted"
    CONTRADICTED = "contradicted"
    FOUND_BY_FEW = "found by few"
    UNEXPLAINED = "unexplained"
    PROPOSAL_IMPOSSIBLE = "proposal impossible"
    PILOT_IMPOSSIBLE = "pilot impossible"
    PRIOR_IMPOSSIBLE = "prior impossible"
    ENDED_EARLY_AT_POWER = "ended early at power"
    FEW_MOVES_ACCEPTED = "few moves accepted"
    CHAINS_NOT_STARTED = "chains not started"
    CHAINS_IN_WARM_UP = "chains in warm-up"
    CHAINS_NOT_SETTLED = "chains not settled"
    CHAINS_DIVERGED = "chains diverged"
    EXACT_NUMBERS_INDEPENDENT = "exact numbers independent"
    LIKELIHOOD_NOISY = "likelihood noisy"
    WARM_UP_STATES = "warm-up states"
    MATRIX_CLIPPED = "matrix clipped"
    CHAINS_HELD_BACK = "chains held back"
    RECORDS_CLAMPED = "records clamped"
    CHAINS_NOT_MIXED = "chains not mixed"
    TAILS_THIN = "tails thin"

    # approximate Bayesian computation and methods for comparison
    NEAREST_KEPT = "nearest kept"
    FEW_DRAWS_ACCEPTED = "few draws accepted"
    NONE_ACCEPTED = "none accepted"
    NONE_WITHIN_TOLERANCE = "none within tolerance"
    FEW_WITHIN_FIRST_TOLERANCE = "few within first tolerance"
    NONE_WITHIN_FIRST_TOLERANCE = "none within first tolerance"
    NOISE_IGNORED = "noise ignored"
    CONFIDENTIAL = "confidential"
    CLAMPING_IGNORED = "clamping ignored"

    # learnt densities
    STATISTICS_LEFT_OUT = "statistics left out"
    STATISTICS_NOT_LEARNT = "statistics not learnt"
    LOSS_NEVER_FINITE = "loss never finite"
    TRAINING_CUT_SHORT = "training cut short"
    LEARNT_FROM_LESS = "learnt from less"
    FAILURES_UNSEEN = "failures unseen"
    FAILURES_NOT_LEARNT = "failures not learnt"
    MASS_LEAKED = "mass leaked"
    EXTRAPOLATION = "extrapolation"
    OBSERVATION_UNLIKE_TRAINING = "observation unlike training"
    ROUND_FROM_PRIOR = "round from prior"
    ROUND_NOT_ADOPTED = "round not adopted"
    PARAMETERS_NOT_FOUND = "parameters not found"
    LIKELIHOOD_CHAINS_NOT_SETTLED = "likelihood chains not settled"
    JOINT_CHAINS_NOT_SETTLED = "joint chains not settled"
    STATISTICS_IMPOSSIBLE = "statistics impossible"
    LEARNT_DRAWS_NOT_FINITE = "learnt draws not finite"
    LATENT_CHAINS_NOT_SETTLED = "latent chains not settled"
    LATENT_OUTSIDE_SIMULATIONS = "latent outside simulations"
    SPIKE_AND_SLAB = "spike and slab"

    # the stated mechanism, and regressions
    ANSWERS_OUT_OF_RANGE = "answers out of range"
    DESIGNS_DISAGREE = "designs disagree"
    LIKELIHOOD_SKEWED = "likelihood skewed"
    PRIOR_DECIDES = "prior decides"
    GROUPS_OF_ONE_ROW = "groups of one row"
    SEPARATION = "separation"

    # certificates and decompositions
    CERTIFIED = "certified"
    APPROXIMATION_POOR = "approximation poor"
    CERTIFICATE_UNEXPLAINED = "certificate unexplained"
    NOT_CERTIFIABLE = "not certifiable"
    NOTHING_CERTIFIABLE = "nothing certifiable"
    HIDDEN_MODES = "hidden modes"
    PARTS_NOT_SETTLED = "parts not settled"
    DRAWS_DEPENDENT = "draws dependent"

    @property
    def repeats(self) -> bool:
        """Whether one posterior may have several findings of this kind, with different numbers."""
        return self in _REPEATING


_REPEATING = frozenset({Kind.STATED, Kind.STATISTICS_LEFT_OUT, Kind.FAILURES_UNSEEN})
"""A text may say anything; rounds may leave out different statistics; a fit and its user may name
different ways out.
"""

ABOUT_CERTIFICATES = frozenset(
    {
        Kind.CERTIFIED,
        Kind.APPROXIMATION_POOR,
        Kind.CERTIFICATE_UNEXPLAINED,
        Kind.NOT_CERTIFIABLE,
        Kind.NOTHING_CERTIFIABLE,
        Kind.HIDDEN_MODES,
    }
)
"""What certificates find, and show themselves."""


AGAINST_THE_MECHANISM = frozenset({Kind.ANSWERS_OUT_OF_RANGE, Kind.DESIGNS_DISAGREE})
"""What speaks against the mechanism that was stated, so that no answer can be trusted."""


class StopKind(enum.StrEnum):
    """Why the work on a posterior ended. Files and journals hold these names, so they stay."""

    FINISHED = "finished"
    SIMULATIONS_SPENT = "simulations spent"
    TIME_SPENT = "time spent"
    BUDGET_SPENT = "budget spent"
    SHORT_OF_TARGET = "short of target"
    STEPS_MADE = "steps made"
    SWEEPS_MADE = "sweeps made"
    DRAWS_MADE = "draws made"
    IMPORTANCE_DRAWS_MADE = "importance draws made"
    NOTHING_POSSIBLE = "nothing possible"
    ACCEPTANCE_TOO_LOW = "acceptance too low"
    STATED = "stated"
    """A text without a kind of its own: from files of earlier versions, or from a user."""
