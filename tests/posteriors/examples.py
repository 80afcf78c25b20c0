"""Numbers for a sentence of every kind: several for those that are worded differently."""

from noisewise.posteriors import Kind, StopKind

_SETTLING = {"effective_size": 31.4, "r_hat": 1.2, "enough": 400}
_POOR = {"effective_size": 120.0, "perfect_size": 900.0}
_NONE = {"num": 1000, "kept": 10, "tolerance": 0.1, "farthest": 2.5}

FINDINGS = {
    Kind.STATED: [{"text": "A note."}],
    Kind.DENSITY_NEEDS_PRIOR: [{}],
    Kind.EXACT_NUMBERS_INDEPENDENT: [{"names": "total"}],
    Kind.CHAINS_DIVERGED: [{"divergent": 12, "draws": 4000}],
    Kind.SURPRISING_OBSERVATION: [{"p": 0.001}],
    Kind.SIMULATIONS_REJECTED: [{"failed": 3, "simulations": 1000}],
    Kind.SIMULATIONS_DROPPED: [
        {"counts": [1, 0], "kinds": ["raised an error", "hung"], "example": "theta = [1.0]: no."},
        {"counts": [1, 2], "kinds": ["raised an error", "hung"], "example": "theta = [1.0]: no."},
    ],
    Kind.SIMULATIONS_IMPOSSIBLE: [{"failed": 3, "simulations": 1000}],
    Kind.ONLY_PRIOR_DRAWS: [{}],
    Kind.TARGET_NOT_REACHED: [
        {"target": 1000, "worth": 0.0, "exact": False},
        {"target": 1000, "worth": 200.0, "exact": True, "needed": 5e5},
    ],
    Kind.DENSITY_NOT_SAVED: [{}],
    Kind.WEIGHTS_POOR: [{"effective_size": 2.5, "pareto_k": 1.2}],
    Kind.PROPOSAL_IMPOSSIBLE: [{"num": 1000}],
    Kind.PILOT_IMPOSSIBLE: [{"num": 1000}],
    Kind.PRIOR_IMPOSSIBLE: [{"num": 1000}],
    Kind.ENDED_EARLY_AT_POWER: [{"power": 0.25}],
    Kind.FEW_MOVES_ACCEPTED: [{}],
    Kind.CHAINS_NOT_STARTED: [{}],
    Kind.CHAINS_IN_WARM_UP: [{}],
    Kind.CHAINS_NOT_SETTLED: [{**_SETTLING, "largest_r_hat": 1.01}],
    Kind.LIKELIHOOD_NOISY: [{"variance": 3.2, "num_inner": 64}],
    Kind.WARM_UP_STATES: [{}],
    Kind.MATRIX_CLIPPED: [{"share": 0.2}],
    Kind.CHAINS_HELD_BACK: [{"share": 0.2}],
    Kind.RECORDS_CLAMPED: [{"share": 0.2}],
    Kind.CHAINS_NOT_MIXED: [{"effective_size": 31.4, "r_hat": 1.2}],
    Kind.TAILS_THIN: [
        {"names": ["a"], "ends": ["97.5%"], "fewer_than": 10},
        {"names": list("abcdef"), "ends": 6 * ["2.5% and 97.5%"], "fewer_than": 10},
    ],
    Kind.WEIGHTS_UNSTEADY: [{"effective_size": 120.0, "promised": 900.0}],
    Kind.TAILS_UNSTEADY: [{"tail_size": 4.2}],
    Kind.DRAWS_THAT_ADAPTED: [{}],
    Kind.CONTRADICTED: [{"share": 0.4}],
    Kind.FOUND_BY_FEW: [{"share": 0.4}],
    Kind.UNEXPLAINED: [{"p": 0.0005}, {"p": 0.0}],
    Kind.ANSWERS_OUT_OF_RANGE: [
        {"side": "few", "total": 90, "num": 769, "expected": 128.2, "p": 0.0003},
        {"side": "many", "total": 769, "num": 769, "expected": 640.0, "p": 0.0},
    ],
    Kind.PRIOR_DECIDES: [{"names": ["t"], "before": [0.29], "after": [0.28]}],
    Kind.GROUPS_OF_ONE_ROW: [
        {"name": "district", "num": num, "groups": 12, "example": "North"} for num in (1, 3)
    ],
    Kind.SEPARATION: [{"names": ["age"]}, {"names": list("abcdefgh")}],
    Kind.LIKELIHOOD_SKEWED: [
        {
            "names": num * ["t"],
            "symmetric_low": num * [0.1],
            "symmetric_high": num * [0.9],
            "profile_low": num * [0.4],
            "profile_high": num * [0.99],
        }
        for num in (1, 8)
    ],
    Kind.DESIGNS_DISAGREE: [
        {
            "p": 1e-9,
            "statistic": 45.0,
            "df": num - 1,
            "designs": num * ["0.167 to 0.917"],
            "rows": num * [500],
            "shares": num * [0.1],
            "errors": num * [0.02],
        }
        for num in (2, 8)
    ],
    Kind.NEAREST_KEPT: [{"mechanism": "Mine", "share": 0.01}],
    Kind.FEW_DRAWS_ACCEPTED: [{"num": 1000}],
    Kind.NONE_ACCEPTED: [{"num": 1000, "kept": 10}],
    Kind.NONE_WITHIN_TOLERANCE: [_NONE],
    Kind.FEW_WITHIN_FIRST_TOLERANCE: [{"num": 3, "tolerance": 0.1}],
    Kind.NONE_WITHIN_FIRST_TOLERANCE: [_NONE],
    Kind.NOISE_IGNORED: [{}],
    Kind.CONFIDENTIAL: [{}],
    Kind.CLAMPING_IGNORED: [{}],
    Kind.STATISTICS_LEFT_OUT: [{"names": ["s[0]", "s[1]"]}],
    Kind.STATISTICS_NOT_LEARNT: [{"names": ["s[0]"]}],
    Kind.LOSS_NEVER_FINITE: [{}],
    Kind.TRAINING_CUT_SHORT: [{"epochs": 5}],
    Kind.LEARNT_FROM_LESS: [{"stop": "time spent"}, {"stop": "simulations spent", "budget": 1000}],
    Kind.FAILURES_UNSEEN: [{"instead": "TruncatedProposals"}],
    Kind.FAILURES_NOT_LEARNT: [{"failed": 3, "simulations": 1000}],
    Kind.MASS_LEAKED: [{"share": 0.2}],
    Kind.EXTRAPOLATION: [{"share": 0.2}],
    Kind.OBSERVATION_UNLIKE_TRAINING: [{"p": 0.001}],
    Kind.ROUND_FROM_PRIOR: [{}],
    Kind.ROUND_NOT_ADOPTED: [{"round": 3, "kept": 2, "loss": 0.4, "error": 0.1}],
    Kind.PARAMETERS_NOT_FOUND: [{"missing": 301, "asked": 2000}],
    Kind.LIKELIHOOD_CHAINS_NOT_SETTLED: [{**_SETTLING, "finished": end} for end in (True, False)],
    Kind.JOINT_CHAINS_NOT_SETTLED: [{**_SETTLING, "lattice": here} for here in (True, False)],
    Kind.STATISTICS_IMPOSSIBLE: [{}],
    Kind.LEARNT_DRAWS_NOT_FINITE: [{"failed": 3, "draws": 64_000}],
    Kind.LATENT_CHAINS_NOT_SETTLED: [_SETTLING],
    Kind.LATENT_OUTSIDE_SIMULATIONS: [{"share": 0.2}],
    Kind.SPIKE_AND_SLAB: [{}],
    Kind.CERTIFIED: [{"effective_size": 2000.0, "cost": 5.0}],
    Kind.APPROXIMATION_POOR: [{**_POOR, "usable": True}, {**_POOR, "usable": False, "missed": 0.2}],
    Kind.CERTIFICATE_UNEXPLAINED: [{"effective_size": 3939.0}],
    Kind.NOT_CERTIFIABLE: [
        {"effective_size": 20.0, "enough": 800.0, "cost": 50.0, "at_least": False},
        {
            "effective_size": 20.0,
            "enough": 800.0,
            "cost": 50.0,
            "at_least": True,
            "suspicious_efficiency": 0.01,
        },
    ],
    Kind.NOTHING_CERTIFIABLE: [{"num": 1000}],
    Kind.HIDDEN_MODES: [{"share": 0.4}, {"share": 1.0}],
    Kind.PARTS_NOT_SETTLED: [{"r_hat": 1.2}],
    Kind.DRAWS_DEPENDENT: [{"steps": 1024}],
}

STOPS = {
    StopKind.STATED: [{"text": "out of patience"}],
    StopKind.FINISHED: [{}],
    StopKind.SIMULATIONS_SPENT: [{"budget": 10}, {"budget": 1_000_000}],
    StopKind.TIME_SPENT: [{}],
    StopKind.BUDGET_SPENT: [{}],
    StopKind.SHORT_OF_TARGET: [{}],
    StopKind.STEPS_MADE: [{"limit": 5000}],
    StopKind.SWEEPS_MADE: [{"limit": 5000}],
    StopKind.DRAWS_MADE: [{"limit": 5000}],
    StopKind.IMPORTANCE_DRAWS_MADE: [{"num": 5000}],
    StopKind.NOTHING_POSSIBLE: [{}],
    StopKind.ACCEPTANCE_TOO_LOW: [{"limit": 0.001, "tolerance": 0.1}],
}
