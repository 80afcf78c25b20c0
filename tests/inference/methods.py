"""Every method with small settings, and what it can serve: the rows that the conformance tests run
over.
"""

import dataclasses
import functools

import noisewise as nw

I = nw.inference
SMALL = functools.partial(
    nw.estimators.mixture_density_network, num_components=2, num_units=16, num_hidden=1
)
QUICK = nw.estimators.Training(learning_rate=2e-3, max_epochs=5)
ROUNDS = {
    "num_rounds": 2,
    "num_simulations": 100,
    "estimator": SMALL,
    "training": QUICK,
    "num_noise": 2,
}
MARGINAL = functools.partial(
    nw.estimators.masked_autoregressive_flow, num_layers=1, num_units=8, num_hidden=1
)
ROBUST = {
    "num_simulations": 400,
    "estimator": MARGINAL,
    "marginal": MARGINAL,
    "training": QUICK,
    "num_chains": 20,
    "num_warmup": 30,
    "target_ess": 200,
}


@dataclasses.dataclass(frozen=True)
class Case:
    """A method that takes a second, whether its draws are exact on `gaussian_mean`, and whether it
    honours a simulation budget.
    """

    method: object
    exact: bool = True
    simulates: bool = True
    problem: str = "gaussian_mean"

    def __post_init__(self):
        assert self.problem in ("gaussian_mean", "linear_regression", "small_area")

    def make_problem(self):
        return getattr(nw.problems, self.problem)(
            10.0 if self.problem == "linear_regression" else 1.0
        )


METHODS = {
    "importance": Case(I.ImportanceSampling(num_stages=1, num_adapt=300, num_final=800)),
    "exact-smc": Case(I.ExactSMC(num_particles=300, target_ess=300)),
    "pseudo-marginal": Case(I.PseudoMarginalMCMC(num_chains=8, num_warmup=50, target_ess=100)),
    "rejection-abc": Case(I.RejectionABC(num_draws=100)),
    "rejection-abc within a tolerance": Case(
        I.RejectionABC(tolerance=0.2, num_draws=100), exact=False
    ),
    "smc-abc": Case(I.SMCABC(num_particles=100, num_rounds=3), exact=False),
    "gibbs-ss": Case(
        I.GibbsSufficientStatistics(num_chains=4, num_draws=50, num_warmup=100, thin=1),
        exact=False,
        simulates=False,
        problem="linear_regression",
    ),
    "naive": Case(I.NaivePlugIn(num_draws=100), exact=False, simulates=False),
    "confidential": Case(
        I.ConfidentialPosterior(data=[0.5], num_draws=100), exact=False, simulates=False
    ),
    "nuts": Case(
        I.MarginalNUTS(num_chains=2, num_warmup=60, target_ess=50),
        simulates=False,
        problem="small_area",
    ),
    "counts": Case(
        I.CountAugmentationMCMC(num_chains=2, num_warmup=100, target_ess=50),
        simulates=False,
        problem="small_area",
    ),
    "sppe": Case(I.PrivatePosteriorEstimation(**ROUNDS, noise_bank=8), exact=False),
    "sppe with atoms": Case(
        I.PrivatePosteriorEstimation(
            **ROUNDS, noise_bank=8, correction=I.AtomicProposals(num_atoms=4)
        ),
        exact=False,
    ),
    "sple": Case(
        I.PrivateLikelihoodEstimation(**ROUNDS, num_chains=20, num_warmup=20, target_ess=100),
        exact=False,
    ),
    "cle": Case(
        I.ConfidentialLikelihoodEstimation(
            num_simulations=300,
            num_members=1,
            estimator=MARGINAL,
            training=QUICK,
            num_chains=20,
            num_warmup=20,
            target_ess=100,
        ),
        exact=False,
    ),
    "rnpe": Case(I.RobustPosteriorEstimation(**ROBUST), exact=False),
    "rnpe with the mechanism's density": Case(
        I.RobustPosteriorEstimation(**ROBUST, error=I.MechanismError()), exact=False
    ),
    "da-mcmc": Case(I.DataAugmentationMCMC(num_chains=8, num_warmup=50, target_ess=200)),
}
