"""Survey designs: their answers against the devices played step by step, their guarantees against
the audit, and what they are to each other.
"""

import functools
import math

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pandas as pd
import pytest
from scipy.stats import binom

import noisewise as nw
from noisewise import mechanisms as m
from noisewise.audit import privacy_loss
from noisewise.errors import InvalidInputError, MissingCapabilityError
from noisewise.posteriors import Kind

NUM = 100_000
"""People who play a device: a probability that is .02 off lies 12 standard errors away or more."""
LEVEL = 1e-6


# Each device as its reference describes it: (draw of a share, carriers) -> answers.
def warner(draw, carrier):
    return np.where(draw(0.3), carrier, ~carrier)


def forced(draw, carrier):
    device = np.random.default_rng(2).choice(3, p=[0.6, 0.1, 0.3], size=NUM)
    return np.select([device == 0, device == 1], [carrier, True], False)


def unrelated(draw, carrier):
    return np.where(draw(0.7), carrier, draw(0.4))


def crosswise(draw, carrier):
    return carrier == draw(0.2)


def triangular(draw, carrier):
    return carrier | draw(0.25)


def direct(draw, carrier):
    return carrier


def lie_detector(draw, carrier):
    return np.where(carrier, draw(0.6), ~draw(0.8))


DEVICES = {
    "Warner": (m.Warner(p=0.3), warner),
    "ForcedResponse": (m.ForcedResponse(truth=0.6, yes=0.1), forced),
    "UnrelatedQuestion": (m.UnrelatedQuestion(p=0.7, prevalence=0.4), unrelated),
    "Crosswise": (m.Crosswise(p=0.2), crosswise),
    "Triangular": (m.Triangular(p=0.25), triangular),
    "DirectQuestion": (m.DirectQuestion(), direct),
    "StochasticLieDetector": (m.StochasticLieDetector(truth=0.6, p=0.8), lie_detector),
}


class OppositeP(m.StochasticLieDetector):
    """p for 1 - p."""

    def _yes(self):
        return self.p, self.truth


class ForgetsNo(m.ForcedResponse):
    """A guarantee of the answer yes alone."""

    def _losses(self):
        return np.abs(self._log_ratios()[1])


def follows(design, device):
    """Whether a device gives the answers of a design, for people of either kind."""
    rng = np.random.default_rng(7)
    draw = lambda share: rng.random(NUM) < share
    for s in (0.0, 1.0):
        said = int(np.sum(device(draw, np.full(NUM, bool(s)))))
        p = float(np.exp(design.log_prob([1.0], [s])))
        law = binom(NUM, p)
        if min(law.cdf(said), law.sf(said - 1)) < LEVEL:
            return False
    return True


@pytest.mark.parametrize("name", DEVICES)
def test_the_device_gives_the_answers_of_the_design(name):
    assert follows(*DEVICES[name])


def test_p_for_1_minus_p_is_caught():
    assert not follows(OppositeP(truth=0.6, p=0.8), lie_detector)
    assert not follows(m.Crosswise(p=0.8), crosswise)


PRIVATE = [name for name in DEVICES if DEVICES[name][0].guarantee != nw.NoGuarantee()]


@pytest.mark.parametrize("name", PRIVATE)
def test_guarantees_hold_and_are_attained(name):
    loss = privacy_loss(DEVICES[name][0], width=1)
    assert loss.passed
    assert loss.ratio >= 0.99


def test_guarantees_of_rows_and_of_several_answers():
    """Two of three answers of one person: the two that lose most."""
    rows = m.ForcedResponse(truth=[0.6, 0.75, 0.5], yes=[0.1, 0.2, 0.25], sensitivity=2)
    losses = [math.log(1.0 + t / min(y, 1.0 - t - y)) for t, y in [(0.6, 0.1), (0.75, 0.05)]]
    assert rows.guarantee.epsilon == pytest.approx(sum(losses), rel=1e-12)
    loss = privacy_loss(rows, width=3)
    assert loss.passed
    assert loss.ratio >= 0.99
    first = rows.of_columns([0])
    assert first.guarantee.epsilon == pytest.approx(losses[0], rel=1e-12)


def test_a_guarantee_that_forgets_an_answer_is_caught():
    design = ForgetsNo(truth=0.6, yes=0.3)
    assert design.guarantee.epsilon == pytest.approx(math.log(3.0))
    assert not privacy_loss(design, width=1, neighbours=([[1.0]], [[0.0]])).passed


@pytest.mark.parametrize(
    "design",
    [
        m.DirectQuestion(),
        m.Triangular(p=0.25),
        m.Warner(p=1.0),
        m.ForcedResponse(truth=2 / 3, yes=1 / 3),
        m.ForcedResponse(truth=[0.5, 1.0]),
        m.UnrelatedQuestion(p=0.7, prevalence=0.0),
        m.StochasticLieDetector(truth=1.0, p=0.8),
    ],
)
def test_answers_that_tell_the_attribute_have_no_guarantee(design):
    assert design.guarantee == nw.NoGuarantee()
    assert not design.spends
    with pytest.raises(MissingCapabilityError, match="claims no privacy"):
        design.adjacent_pairs(2)


@pytest.mark.parametrize("epsilon", [0.01, 1.0, 12.0, 40.0])
@pytest.mark.parametrize("name", ["Warner", "ForcedResponse", "UnrelatedQuestion", "Crosswise"])
def test_other_budgets(name, epsilon):
    """Rounding keeps 1 - p of 40 nats from being told apart from 0: less is spent then."""
    design = DEVICES[name][0].recalibrated(nw.PureDP(epsilon))
    spent = design.guarantee.epsilon
    assert spent <= epsilon
    assert spent == pytest.approx(epsilon, rel=1e-9) or epsilon > 30.0
    by_row = m.Warner(p=[0.3, 0.6]).recalibrated(nw.PureDP(epsilon))
    assert by_row.p[0] == pytest.approx(1.0 - by_row.p[1])


def test_designs_without_other_budgets_say_what_to_pass():
    with pytest.raises(MissingCapabilityError, match="mechanisms="):
        m.StochasticLieDetector(truth=0.6, p=0.8).recalibrated(nw.PureDP(1.0))


def test_relations_between_designs():
    pairs = np.array([[0.0], [1.0], [0.0], [1.0]]), np.array([[0.0], [0.0], [1.0], [1.0]])
    same = functools.partial(np.testing.assert_allclose, rtol=1e-12)
    coin = m.RandomizedResponse(truth_probability=5 / 6)
    forced = m.ForcedResponse(truth=2 / 3)
    same(forced.log_prob(*pairs), coin.log_prob(*pairs))
    assert forced.guarantee.epsilon == pytest.approx(coin.guarantee.epsilon)
    same(m.Warner(p=5 / 6).log_prob(*pairs), coin.log_prob(*pairs))
    other = m.UnrelatedQuestion(p=0.75, prevalence=0.4)
    same(m.ForcedResponse(truth=0.75, yes=0.1).log_prob(*pairs), other.log_prob(*pairs))


def test_what_is_known_of_answers():
    assert m.Warner(p=0.3).noise_sd(2) == [None, None]
    assert m.ForcedResponse(truth=0.6, yes=0.1).noise_sd(1) == [None]
    assert m.DirectQuestion().noise_sd(1) == [0.0]
    assert m.DirectQuestion().has_noiseless_columns
    blind = m.Warner(p=0.5)
    assert blind.guarantee == nw.PureDP(0.0)
    with pytest.raises(MissingCapabilityError, match="nothing about s"):
        blind.estimate(np.array([1.0]))


@pytest.mark.parametrize(
    ("make", "problem"),
    [
        (lambda: m.ForcedResponse(truth=0.8, yes=0.3), "0.3 to 1.1, but these lie in"),
        (lambda: m.ForcedResponse(truth=1.2), "truth must be a finite number >= 0 and <= 1"),
        (lambda: m.Warner(p=[0.2, -0.1]), "Each p must be"),
        (lambda: m.StochasticLieDetector(truth=[0.2, 0.3], p=[0.1] * 3), "one number per column"),
        (lambda: m.Warner(p=0.3).sample(jax.random.key(0), [2.0]), "takes 1"),
    ],
)
def test_bad_designs_are_refused(make, problem):
    with pytest.raises(InvalidInputError, match=problem):
        make()


# In models ----------------------------------------------------------------------------------------

ROWS = m.PerCell(
    [
        m.DirectQuestion(),
        m.ForcedResponse(truth=0.75, yes=1 / 6),
        m.Crosswise(p=[0.16, 0.2]),
        m.UnrelatedQuestion(p=0.778, prevalence=[0.49, 0.52]),
    ],
    which=[0, 1, 2, 2, 3, 3, 1],
)
INTERCEPT = np.array([0.0, 1 / 6, 0.84, 0.8, 0.222 * 0.49, 0.222 * 0.52, 1 / 6])
SLOPE = np.array([1.0, 0.75, -0.68, -0.6, 0.778, 0.778, 0.75])
ANSWERS = np.array([0.0, 1.0, 1.0, 0.0, 1.0, 0.0, 0.0])


def log_likelihood(share):
    p = INTERCEPT + SLOPE * share
    return jnp.log(jnp.where(ANSWERS == 1.0, p, 1.0 - p)).sum()


def test_a_logistic_regression_sums_over_each_answer():
    def privatized(logits):
        return nw.Privatized(dist.Bernoulli(logits=logits), ROWS).log_prob(ANSWERS).sum()

    with jax.enable_x64(True):
        logits = jnp.linspace(-2.0, 1.0, 7)
        found = jax.value_and_grad(privatized)(logits)
        expected = jax.value_and_grad(lambda z: log_likelihood(jax.nn.sigmoid(z)))(logits)
    np.testing.assert_allclose(found[0], expected[0], rtol=1e-12)
    np.testing.assert_allclose(found[1], expected[1], rtol=1e-10)


def test_a_table_of_answers_by_four_designs():
    frame = pd.DataFrame({"person": np.arange(7), "answer": ANSWERS})
    release = nw.Release.from_table(frame, value="answer", labels=["person"], mechanism=ROWS)
    model = nw.PrivateModel.from_release(
        release,
        prior=nw.Prior({"share": dist.Uniform(0, 1)}),
        simulator=nw.simulators.StatisticLaw(
            lambda theta: dist.Bernoulli(jnp.full(7, theta["share"]))
        ),
    )
    theta = np.array([[0.2], [0.7]])
    found = model.log_likelihood(theta, release).sum(axis=1)
    np.testing.assert_allclose(found, [log_likelihood(share) for share in (0.2, 0.7)], rtol=1e-6)
    method = nw.inference.MarginalNUTS(target_ess=50, num_warmup=100, max_draws=250)
    posterior = method.infer(0, model, release, progress=False)
    kinds = {finding.kind for finding in posterior.report.findings}
    assert Kind.EXACT_NUMBERS_INDEPENDENT not in kinds  # an answer is no total
    assert release.guarantee == nw.NoGuarantee()


@pytest.mark.parametrize(
    "design", [nw.mechanisms.ForcedResponse(truth=0.5), nw.mechanisms.UnrelatedQuestion(0.5, 0.3)]
)
def test_a_budget_beyond_what_numbers_hold_is_met(design):
    assert 29.0 < design.recalibrated(nw.PureDP(800.0)).guarantee.epsilon <= 800.0
