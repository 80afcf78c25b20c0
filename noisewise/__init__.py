"""Bayesian inference from differentially private releases, for models you can only simulate.

    theta --simulator--> x --query--> s --mechanism--> s_dp          (what the curator did)
    posterior  <--inference method--  (model, s_dp)                  (what the analyst wants)

Analysts build an `nw.PrivateModel` from a prior, a simulator, a query and a mechanism, and call
`nw.infer(key, model, observed)`, which picks a method and stops when the answer is good
enough, or a budget is spent.
`nw.inference` holds every method, `nw.problems` holds ready models to try, and `nw.plotting` shows
results. Curators call `nw.plan` to see what a privacy budget buys, and `nw.release` to publish.

Names load on first use, so that `import noisewise` costs next to nothing.
"""

from typing import TYPE_CHECKING

from noisewise._core.lazy import attach

__version__ = "0.1.0"

if TYPE_CHECKING:
    from noisewise import (
        assessment,
        audit,
        diagnostics,
        errors,
        estimators,
        inference,
        laws,
        mechanisms,
        metrics,
        planning,
        plotting,
        posteriors,
        problems,
        queries,
        readers,
        regressions,
        reports,
        runs,
        samplers,
        simulators,
    )
    from noisewise._core.neighbours import AddRemoveOne, ReplaceOne
    from noisewise.assessment import assess
    from noisewise.automatic.infer import infer
    from noisewise.disclosure import Ledger, Release, release
    from noisewise.laws import Privatized
    from noisewise.mechanisms.guarantees import (
        ApproximateDP,
        GaussianDP,
        NoGuarantee,
        PureDP,
        ZeroConcentratedDP,
    )
    from noisewise.model.private_model import PrivateModel
    from noisewise.planning import plan
    from noisewise.posteriors import load_posterior
    from noisewise.priors.prior import Prior
    from noisewise.regressions import maximum_likelihood, regression

__all__ = [
    "AddRemoveOne",
    "ApproximateDP",
    "GaussianDP",
    "Ledger",
    "NoGuarantee",
    "Prior",
    "PrivateModel",
    "Privatized",
    "PureDP",
    "Release",
    "ReplaceOne",
    "ZeroConcentratedDP",
    "assess",
    "assessment",
    "audit",
    "diagnostics",
    "errors",
    "estimators",
    "infer",
    "inference",
    "laws",
    "load_posterior",
    "maximum_likelihood",
    "mechanisms",
    "metrics",
    "plan",
    "planning",
    "plotting",
    "posteriors",
    "problems",
    "queries",
    "readers",
    "regression",
    "regressions",
    "release",
    "reports",
    "runs",
    "samplers",
    "simulators",
]

__getattr__, __dir__ = attach(
    __name__,
    {
        "AddRemoveOne": "noisewise._core.neighbours",
        "ReplaceOne": "noisewise._core.neighbours",
        "ApproximateDP": "noisewise.mechanisms.guarantees",
        "GaussianDP": "noisewise.mechanisms.guarantees",
        "NoGuarantee": "noisewise.mechanisms.guarantees",
        "PureDP": "noisewise.mechanisms.guarantees",
        "ZeroConcentratedDP": "noisewise.mechanisms.guarantees",
        "Ledger": "noisewise.disclosure",
        "Prior": "noisewise.priors.prior",
        "PrivateModel": "noisewise.model.private_model",
        "Privatized": "noisewise.laws",
        "Release": "noisewise.disclosure",
        "release": "noisewise.disclosure",
        "assess": "noisewise.assessment.assess_posterior",
        "assessment": "noisewise.assessment",
        "audit": "noisewise.audit",
        "diagnostics": "noisewise.diagnostics",
        "errors": "noisewise.errors",
        "estimators": "noisewise.estimators",
        "infer": "noisewise.automatic",
        "inference": "noisewise.inference",
        "laws": "noisewise.laws",
        "load_posterior": "noisewise.posteriors",
        "maximum_likelihood": "noisewise.regressions",
        "mechanisms": "noisewise.mechanisms",
        "metrics": "noisewise.metrics",
        "plan": "noisewise.planning",
        "planning": "noisewise.planning",
        "plotting": "noisewise.plotting",
        "posteriors": "noisewise.posteriors",
        "problems": "noisewise.problems",
        "queries": "noisewise.queries",
        "readers": "noisewise.readers",
        "regression": "noisewise.regressions",
        "regressions": "noisewise.regressions",
        "reports": "noisewise.reports",
        "runs": "noisewise.runs",
        "samplers": "noisewise.samplers",
        "simulators": "noisewise.simulators",
    },
)
