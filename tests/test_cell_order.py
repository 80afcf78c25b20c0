"""Cells of a release in another order than those of a model, or of a prior, are not taken silently."""

import warnings

import numpyro.distributions as dist
import pandas as pd
import pytest

import noisewise as nw
from noisewise import errors

M = nw.mechanisms
TABLE = pd.DataFrame({"lake": ["Alder", "Birch", "Lark"], "n": [3, 50, 700], "sd": [2.0, 3.0, 4.0]})
FIXED, VARYING = {"mechanism": M.DiscreteLaplace(2.0)}, {"mechanism": M.DiscreteLaplace, "sd": "sd"}
LAW = nw.simulators.StatisticLaw(lambda theta: dist.Poisson(theta["rate"]))
PRIOR = nw.Prior({"rate": dist.LogNormal(3.0, 2.0).expand([3])})


def release(table=TABLE, noise=FIXED):
    return nw.Release.from_table(table, value="n", labels=["lake"], **noise)


def model(noise=FIXED, prior=PRIOR):
    return nw.PrivateModel.from_release(release(noise=noise), prior=prior, simulator=LAW)


@pytest.mark.parametrize("noise", [FIXED, VARYING], ids=["one noise", "noise by cell"])
def test_another_order_is_refused(noise):
    made = model(noise)
    with pytest.raises(errors.InvalidInputError) as caught:
        nw.infer(0, made, release(TABLE[::-1], noise))
    text = str(caught.value)
    assert "cells are Lark, Birch, Alder, the model's are Alder, Birch, Lark: the same in" in text
    assert "frame.set_index('lake').loc[['Alder', ...]].reset_index()" in text
    again = TABLE[::-1].set_index("lake").loc[["Alder", "Birch", "Lark"]].reset_index()
    assert made.observation(release(again, noise)).tolist() == [3, 50, 700]


def test_cells_of_two_labels_are_told_apart():
    table = TABLE.assign(year=[2020, 2021, 2021])
    there, turned = (
        nw.Release.from_table(frame, value="n", labels=["lake", "year"], **FIXED)
        for frame in (table, table[::-1])
    )
    made = nw.PrivateModel.from_release(there, prior=PRIOR, simulator=LAW)
    with pytest.raises(errors.InvalidInputError) as caught:
        made.observation(turned)
    text = str(caught.value)
    assert "cells are Lark, 2021; Birch, 2021; Alder, 2020, the" in text
    assert "frame.set_index(['lake', 'year']).loc[[('Alder', 2020), ...]]" in text


def test_other_cells_are_refused_and_numbers_are_taken():
    other = release(TABLE.replace("Birch", "Willow"))
    with pytest.raises(
        errors.InvalidInputError, match=r"\.\.\., Willow, Lark, the model's .*Birch"
    ):
        model().observation(other)
    assert model().observation(other.observed).tolist() == [3, 50, 700]


def test_noise_in_another_order_is_named_where_the_model_has_no_names():
    bare = nw.PrivateModel(prior=PRIOR, simulator=LAW, mechanism=release(noise=VARYING).mechanism)
    with pytest.raises(errors.InvalidInputError, match="cells are in another order"):
        bare.observation(release(TABLE[::-1], VARYING))


def test_a_number_that_the_noise_of_its_cell_cannot_give_is_named():
    table = TABLE.assign(n=[3.5, 50.5, 700], sd=[0.0, 3.0, 4.0])
    with pytest.raises(errors.InvalidInputError, match=r"DiscreteLaplace .* of 'Birch' is 50\.5"):
        release(table, VARYING)


def test_labels_of_a_prior_in_another_order_are_warned_of():
    def labelled(names):
        return nw.Prior({"rate": dist.LogNormal(3.0, 2.0).expand([3])}, labels={"rate": names})

    with pytest.warns(
        UserWarning, match="'rate' are Lark, .* are Alder, Birch, Lark: .*release.table"
    ):
        model(prior=labelled(["Lark", "Birch", "Alder"]))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model(prior=labelled(["Alder", "Birch", "Lark"]))
