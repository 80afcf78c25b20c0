"""Releases and ledgers of every relation: files, texts, and whose word a guarantee is."""

import json

import jax
import numpyro.distributions as dist
import pytest

import noisewise as nw
from noisewise.errors import (
    BudgetError,
    ConversionError,
    FileFormatError,
    InvalidInputError,
    ReleaseError,
    SensitivityError,
)
from noisewise.reports.released import guarantee_in_words, released

m, q = nw.mechanisms, nw.queries
ADD = nw.AddRemoveOne()
HOUSEHOLDS = nw.AddRemoveOne("household", max_contributions=3, max_per_cell=2)
HISTOGRAM = q.Histogram(edges=(0.0, 1.0, 2.0))
NOISE = m.DiscreteLaplace(scale=1.0, sensitivity=1.0)
RELATIONS = [nw.ReplaceOne(), nw.ReplaceOne("household"), ADD, HOUSEHOLDS]


def described(neighbours=None, **more):
    return nw.Release([3.0, 1.0], NOISE, neighbours=neighbours, **more)


# Releases -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("relation", RELATIONS, ids=repr)
def test_a_release_keeps_its_relation(relation):
    published = described(relation)
    assert published.neighbours == published.guarantee.neighbours == relation
    assert published.privacy_unit == relation.unit
    assert published.mechanism.neighbours.agrees_with(relation)
    again = nw.Release.from_json(published.to_json())
    assert again == published
    assert again.to_json() == published.to_json()
    assert f"{relation.label}, one {relation.unit}" in repr(published)


def test_the_default_is_written_as_before():
    """What a file of the first version says, to the letter, and no more."""
    for published in (described(), described(privacy_unit="household")):
        file = json.loads(published.to_json())
        assert file["neighbours"] == "replace-one"
        assert file["privacy_unit"] == published.privacy_unit
        assert file["guarantee"] == {"type": "PureDP", "epsilon": 1.0}
        assert set(file["mechanism"]) == {"type", "scale", "sensitivity", "step"}
        assert "guarantee_is_stated" not in file


def test_the_relation_may_come_from_any_part():
    by_name = described(ADD)
    assert nw.Release([3.0, 1.0], NOISE.for_neighbours(ADD)) == by_name
    assert described(guarantee=nw.PureDP(1.0, neighbours=ADD)) == by_name
    assert described(ADD, guarantee=nw.PureDP(1.0)) == by_name
    assert described(nw.AddRemoveOne(), privacy_unit="household").neighbours.unit == "household"


@pytest.mark.parametrize(
    "terms",
    [
        {"neighbours": nw.ReplaceOne(), "guarantee": nw.PureDP(1.0, neighbours=ADD)},
        {"neighbours": HOUSEHOLDS, "privacy_unit": "school"},
        {"neighbours": ADD, "guarantee": nw.PureDP(1.0, neighbours=HOUSEHOLDS)},
        {"neighbours": ADD, "requested": nw.PureDP(0.5)},
    ],
    ids=repr,
)
def test_contradictions_are_refused(terms):
    with pytest.raises(InvalidInputError):
        described(**terms)


def test_what_follows_follows_for_the_same_neighbours():
    assert described(ADD, requested=nw.PureDP(2.0)).requested == nw.PureDP(2.0, neighbours=ADD)


@pytest.mark.parametrize(
    "change",
    [
        {"neighbours": "add-remove"},
        {"neighbours": {"type": "AddRemoveOne", "unit": "person"}},
        {"neighbours": {"type": "Laplace", "scale": 1.0}},
        {"neighbours": nw.AddRemoveOne("school").to_spec(), "privacy_unit": "household"},
        {"neighbours": ADD.to_spec()},
        {"privacy_unit": "person"},
        {"guarantee": {"type": "PureDP", "epsilon": 1.0, "neighbours": ADD.to_spec()}},
        {"guarantee_is_stated": True},
        {"guarantee_is_stated": 3},
    ],
    ids=repr,
)
def test_files_that_contradict_themselves_are_refused(change):
    file = json.loads(described(HOUSEHOLDS).to_json()) | change
    with pytest.raises(FileFormatError):
        nw.Release.from_json(json.dumps(file))


def test_only_releases_of_one_relation_combine():
    both = nw.Release.combine(described(HOUSEHOLDS), described(HOUSEHOLDS, description="again"))
    assert both.guarantee == nw.PureDP(2.0, neighbours=HOUSEHOLDS)
    assert nw.Release.from_json(both.to_json()) == both
    for other in (described(), described(ADD), described(nw.AddRemoveOne("household"))):
        with pytest.raises(InvalidInputError, match="different"):
            nw.Release.combine(described(HOUSEHOLDS), other)


def test_noise_of_the_add_remove_world_is_released():
    """A histogram needs 2 where a record is replaced, and 1 where one is added."""
    pytest.importorskip("opendp")
    with pytest.raises(SensitivityError):
        nw.release([0.5], HISTOGRAM, mechanism=NOISE)
    published = nw.release([0.5], HISTOGRAM, mechanism=NOISE, neighbours=ADD)
    assert published.guarantee == nw.PureDP(1.0, neighbours=ADD)
    with pytest.raises(SensitivityError):
        nw.release([0.5], HISTOGRAM, mechanism=NOISE, neighbours=HOUSEHOLDS)
    with pytest.raises(InvalidInputError, match="leave neighbours out"):
        nw.release([0.5], HISTOGRAM, nw.PureDP(1.0, neighbours=ADD), neighbours=nw.ReplaceOne())


def test_a_mechanism_that_promises_nothing_is_refused(monkeypatch):
    pytest.importorskip("opendp")
    monkeypatch.setattr(m.DiscreteLaplace, "guarantee", nw.NoGuarantee())
    with pytest.raises(ReleaseError, match="promises nothing"):
        nw.release([0.5], HISTOGRAM, mechanism=m.DiscreteLaplace(2.0, 2.0))


# Stated and derived -------------------------------------------------------------------------------


def test_a_stated_guarantee_is_never_shown_as_derived():
    unknown = m.DiscreteLaplace(scale=1.0)
    stated = nw.Release([3.0], unknown, guarantee=nw.PureDP(1.0))
    derived = nw.Release([3.0], NOISE)
    assert stated.guarantee == derived.guarantee
    assert (stated.guarantee_is_stated, derived.guarantee_is_stated) == (True, False)
    assert "PureDP(epsilon=1.0), stated by the publisher, not derived" in repr(stated)
    assert "stated by" not in repr(derived)
    file = json.loads(stated.to_json())
    assert file["guarantee_is_stated"] is True
    assert nw.Release.from_json(stated.to_json()) == stated
    del file["guarantee_is_stated"]  # as in files of before
    assert nw.Release.from_json(json.dumps(file)).guarantee_is_stated
    file["guarantee_is_stated"] = False
    with pytest.raises(FileFormatError, match="stated or"):
        nw.Release.from_json(json.dumps(file))
    pages = [str(released(None, None, published)) for published in (stated, derived)]
    assert "nothing has verified it" in pages[0]
    assert "states" not in pages[1]


def test_one_stated_part_makes_the_whole_stated():
    unknown = nw.Release([3.0], m.DiscreteLaplace(scale=1.0), guarantee=nw.PureDP(1.0))
    both = nw.Release.combine(unknown, nw.Release([3.0], NOISE))
    assert both.guarantee == nw.PureDP(2.0)
    assert both.guarantee_is_stated


def test_a_users_mechanism_states_and_derives_nothing():
    sample = lambda key, s: s + jax.random.laplace(key, s.shape)
    own = m.SampledMechanism(sample, guarantee=nw.PureDP(1.0), sensitivity=1.0)
    assert nw.Release([3.0], own).guarantee_is_stated
    assert not own.derives_guarantee
    assert not m.Product([own, NOISE]).derives_guarantee
    assert m.Clamped(NOISE, low=0.0).derives_guarantee
    assert "nothing has verified it" in str(released(None, None, nw.Release([3.0], own)))


def test_reports_say_what_neighbours_are():
    page = str(released(None, None, described(HOUSEHOLDS)))
    assert "all records of a household, at most 3, at most 2 of them in one cell" in page
    assert "their number is confidential" in page
    words = {
        nw.PureDP(1.0): "replacing one person changes",
        nw.PureDP(1.0, neighbours=ADD): "adding or removing one person changes",
        nw.GaussianDP(1.0, neighbours=ADD): "whether one person is in the data",
        nw.ApproximateDP(
            1.0, 1e-6, neighbours=HOUSEHOLDS
        ): "all records of one household, at most 3,",
        nw.NoGuarantee(): "no privacy claimed",
    }
    for guarantee, text in words.items():
        assert text in guarantee_in_words(guarantee)


# Ledgers ------------------------------------------------------------------------------------------


@pytest.fixture
def path(tmp_path):
    return tmp_path / "ledger.json"


@pytest.mark.parametrize("relation", [ADD, HOUSEHOLDS], ids=repr)
def test_a_ledger_counts_for_its_neighbours(path, relation):
    ledger = nw.Ledger(path, nw.PureDP(2.0, neighbours=relation))
    assert ledger.privacy_unit == relation.unit
    ledger.spend(nw.PureDP(0.5, neighbours=relation), "first")
    again = nw.Ledger(path)
    assert again.remaining == nw.PureDP(1.5, neighbours=relation)
    assert again.spent.neighbours == relation
    for other in (nw.PureDP(0.1), nw.PureDP(0.1, neighbours=nw.AddRemoveOne(max_contributions=2))):
        with pytest.raises(BudgetError, match="do not add up"):
            ledger.spend(other)
    with pytest.raises(BudgetError):
        nw.Ledger(path, nw.PureDP(2.0))
    assert len(ledger.entries) == 1


def test_a_ledger_of_replacements_takes_no_other(path):
    ledger = nw.Ledger(path, nw.ApproximateDP(2.0, 1e-6))
    with pytest.raises(BudgetError, match="do not add up"):
        ledger.spend(nw.PureDP(0.1, neighbours=ADD))
    ledger.spend(nw.PureDP(0.1, neighbours=ADD).for_replacement())
    assert ledger.spent.epsilon == pytest.approx(0.2)


def test_no_ledger_is_kept_of_nothing(path):
    with pytest.raises(InvalidInputError, match="promise something"):
        nw.Ledger(path, nw.NoGuarantee())


def test_units_are_kept_apart(path):
    ledger = nw.Ledger(path, nw.PureDP(2.0, neighbours=nw.AddRemoveOne("household")))
    ledger.spend(nw.PureDP(0.5, neighbours=nw.AddRemoveOne()))  # whatever a record stands for
    with pytest.raises(BudgetError, match="per 'school'"):
        ledger.spend(nw.PureDP(0.5, neighbours=nw.AddRemoveOne("school")))
    with pytest.raises(BudgetError, match="per 'household'"):
        nw.Ledger(path, privacy_unit="person")


@pytest.mark.parametrize("kind", [nw.PureDP, nw.ZeroConcentratedDP, nw.GaussianDP])
def test_totals_carry_the_relation(path, kind):
    ledger = nw.Ledger(path, kind(2.0, neighbours=ADD))
    ledger.spend(kind(0.5, neighbours=ADD))
    assert ledger.spent.neighbours == ledger.remaining.neighbours == ADD
    nothing = nw.NoGuarantee()
    with pytest.raises(BudgetError, match="cannot compare"):
        ledger.spend(nothing)


def test_what_remains_of_an_epsilon_and_delta_carries_the_relation(path):
    ledger = nw.Ledger(path, nw.ApproximateDP(2.0, 1e-6, neighbours=ADD))
    for guarantee in (nw.PureDP(0.5), nw.ZeroConcentratedDP(0.01)):
        ledger.spend(guarantee.with_neighbours(ADD))
        assert ledger.spent.neighbours == ledger.remaining.neighbours == ADD
        assert ledger.remaining.within(ledger.limit)


def test_a_release_is_charged_for_its_neighbours(path):
    pytest.importorskip("opendp")
    ledger = nw.Ledger(path, nw.PureDP(2.0, neighbours=HOUSEHOLDS))
    terms = {"ledger": ledger, "neighbours": HOUSEHOLDS}
    nw.release([0.5], HISTOGRAM, nw.PureDP(1.0), **terms)
    assert ledger.entries[0].guarantee == nw.PureDP(1.0, neighbours=HOUSEHOLDS)
    with pytest.raises(BudgetError):
        nw.release([0.5], HISTOGRAM, nw.PureDP(1.5), **terms)
    with pytest.raises((BudgetError, ReleaseError)):
        nw.release([0.5], HISTOGRAM, nw.PureDP(0.5), ledger=ledger)


# Models and plans ---------------------------------------------------------------------------------


def model(query, mechanism, **more):
    return nw.PrivateModel(
        prior=nw.Prior({"p": dist.Uniform(0.1, 0.9)}),
        simulator=nw.simulators.JaxSimulator(
            lambda key, theta: 2.0 * jax.random.bernoulli(key, theta, (50, 1))
        ),
        query=query,
        mechanism=mechanism,
        **more,
    )


def test_a_model_checks_the_sensitivity_between_its_neighbours():
    with pytest.raises(SensitivityError, match="is 2"):
        model(HISTOGRAM, NOISE)
    assert model(HISTOGRAM, NOISE, neighbours=ADD).mechanism.neighbours == ADD
    assert model(HISTOGRAM, NOISE.for_neighbours(ADD)).mechanism.guarantee.neighbours == ADD
    with pytest.raises(SensitivityError, match=r"is 3 between databases.*neighbours=AddRemoveOne"):
        model(HISTOGRAM, NOISE, neighbours=nw.AddRemoveOne(max_contributions=3))
    with pytest.raises(InvalidInputError, match="leave neighbours out"):
        model(HISTOGRAM, NOISE.for_neighbours(ADD), neighbours=nw.ReplaceOne())
    mean = q.ClampedMean(bounds=(0.0, 1.0), num_records=50)
    with pytest.raises(SensitivityError, match=r"queries\.ClampedSum"):
        model(mean, m.Laplace(scale=1.0, sensitivity=1.0), neighbours=ADD)


def test_a_model_of_a_release_has_its_relation():
    published = nw.Release([3.0, 1.0], NOISE, neighbours=ADD, query=HISTOGRAM)
    made = nw.PrivateModel.from_release(
        published, prior=model(HISTOGRAM, NOISE, neighbours=ADD).prior,
        simulator=model(HISTOGRAM, NOISE, neighbours=ADD).simulator,
    )  # fmt: skip
    assert made.mechanism.guarantee == published.guarantee
    s = made.statistics(jax.random.key(0), made.prior.sample(jax.random.key(1), 5))
    assert made.log_prob_observed(published, s).shape == (5,)


def test_a_plan_keeps_the_relation():
    options = {"num_simulations": 1000, "num_releases": 5, "progress": False}
    made = model(HISTOGRAM, NOISE, neighbours=ADD)
    found = nw.plan(jax.random.key(0), made, [0.5, 2.0], **options)
    assert {mechanism.neighbours for mechanism in found.mechanisms.values()} == {ADD}
    again = nw.plan(jax.random.key(0), made, [nw.PureDP(0.5)], neighbours=ADD, **options)
    assert again.mechanisms[0.5] == found.mechanisms[0.5]
    for wrong in (nw.ReplaceOne(), HOUSEHOLDS):
        with pytest.raises((InvalidInputError, SensitivityError)):
            nw.plan(jax.random.key(0), made, [0.5], neighbours=wrong, **options)
    budget = nw.PureDP(0.5, neighbours=HOUSEHOLDS)
    with pytest.raises(InvalidInputError):
        nw.plan(jax.random.key(0), made, [budget], **options)


def test_guarantees_of_two_releases_do_not_add_up_by_accident():
    first, second = described(ADD), described(HOUSEHOLDS)
    with pytest.raises(ConversionError):
        first.guarantee.compose(second.guarantee)
