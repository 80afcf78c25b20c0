"""The numbers that items take from the paper, against its text where that lies beside the checkout."""

import re

import pytest

from experiments import (
    claims,
    complexity,
    index,
    items,
    noise_rmse,
    outbreaks,
    regression_tables,
    table_cost,
)
from experiments.methods import NAMES
from tests.cli.conftest import ROOT

PAPER = ROOT.parent / "shared" / "paper" / "paper.tex"
ROWS = {
    "Confidential Posterior given $x$": "confidential",
    "Naive posterior approximation": "naive",
    "DA-MCMC": "da-mcmc",
    "SMC-ABC": "smc-abc",
    "SPPE": "sppe",
    "SPLE": "sple",
    "Gibbs-SS": "gibbs-ss",
    "RNPE": "rnpe",
}


@pytest.fixture(scope="module")
def text():
    if not PAPER.exists():
        pytest.skip("the paper does not lie beside this checkout")
    return " ".join(PAPER.read_text().split())


def table_of(text, label):
    """The cells of the table with a label, by row."""
    (found,) = [
        each
        for each in re.findall(r"\\begin\{table\}.*?\\end\{table\}", text)
        if f"{{{label}}}" in each
    ]
    body = found.split(r"\begin{tabular}")[1].split(r"\end{tabular}")[0]
    rows = [
        [cell.replace(r"\hline", "").strip() for cell in row.split("&")]
        for row in body.split(r"\\")
    ]
    return {row[0]: row[1:] for row in rows if len(row) > 1}


@pytest.mark.parametrize(
    ("epsilon", "label"),
    [("10", "tab:linreg"), ("1", "tab:linreg_eps1"), ("0.1", "tab:linreg_eps.1")],
)
def test_tables_of_the_regression(text, epsilon, label):
    found = table_of(text, label)
    printed = regression_tables.PAPER_VALUES[epsilon]
    assert set(printed) == set(ROWS.values())
    for name, slug in ROWS.items():
        cells = [tuple(float(v) for v in re.findall(r"-?\d+\.\d+", cell)) for cell in found[name]]
        assert tuple(cells) == (((),) * 3 if printed[slug] is None else printed[slug]), name


def test_table_of_costs(text):
    found = table_of(text, "tab:cost")
    for slug, values in table_cost.PAPER_VALUES.items():
        cells = [
            re.sub(r"\\textbf\{(.*)\}", r"\1", cell).replace(r"$\pm$", "±")
            for cell in found[NAMES[slug]]
        ]
        thousands = "{:.2f} ± {:.2f}".format(*values["thousands"])
        assert cells == [values["simulation"], values["training"], values["total"], thousands]


def test_ranges_of_the_literature(text):
    named = {
        "ebola": r"\((.*?)\)\$ for Ebola",
        "covid": r"\((.{1,12}?)\)\$ for COVID-19",
        "influenza": r"flu outbreak \$\((.*?)\)\$",
    }
    for name, pattern in named.items():
        found = re.search(pattern, text).group(1).rsplit("(", 1)[-1]
        assert tuple(float(v) for v in found.split(",")) == outbreaks.PAPER_VALUES[name]


def test_claims_in_words(text):
    values = claims.PAPER_VALUES
    assert (
        f"SPPE is {values['sppe']:g}x faster and SPLE is {values['sple']:g}x faster than SMC-ABC"
        in text
    )
    assert f"stabilize in performance after round {values['stable']}" in text
    assert f"SPLE requires approximately {values['rounds']} training rounds" in text
    assert (
        f"SMC-ABC method with approximately $10^{len(str(values['abc'])) - 1}$ simulations" in text
    )
    assert "After Round 5, SPLE and SPPE have similar accuracy" in text
    assert "DA-MCMC, SMC-ABC, SPPE, SPLE, and Gibbs-SS are closely aligned" in text
    assert "SPPE is slightly more concentrated than those from SMC-ABC and SPLE" in text


def test_slopes(text):
    assert noise_rmse.PAPER_VALUES == {"MC": -0.5, "RQMC": -1.0}
    assert r"MC method is approximately $\mathcal{O}(M^{-1/2})$" in text
    assert r"RQMC method is approximately $\mathcal{O}(M^{-1})$" in text
    assert claims.PAPER_VALUES["slope"] == noise_rmse.PAPER_VALUES["RQMC"]


def test_formulas(text):
    found = dict(
        re.findall(
            r"C_\{\\mathrm\{(PLE|PPE)\}\} = \\mathcal\{O\}\\left\((.*?)\\right\)[,.] \\end", text
        )
    )
    assert set(found) == set(complexity.PAPER_VALUES)
    for kind, latex in found.items():
        words = re.sub(r"\\mathrm|\\mathbb|\\left|\\right|[{}\s\\]", "", latex)
        assert words == complexity.PAPER_VALUES[kind].replace(" ", "")


def test_training(text):
    assert index.PAPER_TRAINING["learning_rate"] == 5e-4
    assert (
        r"batchsize of 100, the learning rate of $5\times 10^{-4}$ and the weight decay is"
        r" $10^{-4}$" in text
    )
    assert "does not decrease after 20 epochs" in text
    assert r"select 5\% of the newly generated samples as validation data" in text
    assert (index.PAPER_TRAINING["batch_size"], index.PAPER_TRAINING["weight_decay"]) == (100, 1e-4)
    assert (index.PAPER_TRAINING["patience"], index.PAPER_VALIDATION) == (20, 0.05)


def test_labels_and_letters_of_the_appendix(text):
    """Items name labels that the paper has; the complexity section is the fourth after the appendix
    begins.
    """
    for slug in items.ITEMS:
        for label in re.findall(r"(?:fig|tab|eq|prop):[\w.]*\w", items.load(slug).PAPER):
            assert f"\\label{{{label}}}" in text, (slug, label)
    before = text.split(r"\appendix")[1].split(r"\label{appendix:comp}")[0]
    letter = "-ABCDEFG"[before.count(r"\section{")]
    assert complexity.PAPER.startswith(f"Appendix {letter},")


def test_figures_are_numbered_as_the_paper_does(text):
    order = re.findall(r"\\begin\{figure\}.*?\\label\{(fig:\w+)\}.*?\\end\{figure\}", text)
    for slug in items.ITEMS:
        for number, label in re.findall(
            r"Figure (\d+)(?:-\w)? \((fig:\w+)\)", items.load(slug).PAPER
        ):
            assert order.index(label) + 1 == int(number), slug
