"""The page as text: complete, self-contained, escaped, and honest about what was found."""

import dataclasses
import html.parser
import itertools
import re
import types

import jax
import numpy as np
import numpyro.distributions as dist
import pandas as pd
import pytest

import noisewise as nw
from noisewise.assessment import Evidence, judge
from noisewise.errors import InvalidInputError, InvalidTypeError
from noisewise.posteriors import Draws, Report
from noisewise.reports.html import number
from noisewise.reports.verdict import MEASURED
from tests.reports.browser import WIDTHS, chromium, complaints, look

EVIL = "<script>alert(1)</script>"
SECTIONS = ["released", "answer", "pictures", "trust", "cite", "reproduce"]
VOID = {"meta", "link", "img", "br"}
KEY = jax.random.key(0)


class Page(html.parser.HTMLParser):
    """Elements with their attributes; tags that are not closed are found."""

    def __init__(self, text):
        super().__init__()
        self.elements, self.open, self.faults, self.words = [], [], [], []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attributes):
        self.elements.append((tag, dict(attributes)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        if not self.open or self.open.pop() != tag:
            self.faults.append(tag)

    def handle_data(self, data):
        if "style" not in self.open:
            self.words.append(data)

    def all(self, tag):
        return [attributes for name, attributes in self.elements if name == tag]

    @property
    def text(self):
        return " ".join(" ".join(self.words).split())


def faults(text):
    """What is wrong with a page that should stand by itself."""
    page = Page(text)
    found = [f"<{tag}> is not closed in order" for tag in [*page.faults, *page.open]]
    for tag, attributes in page.elements:
        found += [
            f"{tag} {name} leads outside"
            for name in ("src", "href", "action")
            if _outside(attributes.get(name))
        ]
        found += [f"{tag} has {name}" for name in attributes if name.startswith("on")]
        if tag in ("script", "iframe", "object", "embed", "base"):
            found.append(f"there is a {tag}")
        if tag == "img" and (
            not attributes.get("alt")
            or not attributes.get("src", "").startswith("data:image/png;base64,")
        ):
            found.append("an image has no alt, or is not inside")
    found += ["the style loads something"] * bool(re.search(r"url\(|@import", text))
    headings = [int(tag[1]) for tag, _ in page.elements if re.fullmatch(r"h[1-6]", tag)]
    found += ["headings skip a level"] * any(b > a + 1 for a, b in itertools.pairwise(headings))
    found += ["there is not one h1"] * (headings.count(1) != 1)
    present = [attributes.get("id") for attributes in page.all("section")]
    found += [f"no section {name}" for name in SECTIONS if name not in present]
    if not any(attributes.get("name") == "viewport" for attributes in page.all("meta")):
        found.append("no viewport")
    return found


def _outside(address):
    return address is not None and not address.startswith(("data:", "#"))


@pytest.fixture(scope="module")
def sir():
    """The epidemic at epsilon 10, with draws near its exact posterior and without statistics: the
    fan must simulate.
    """
    problem = nw.problems.sir(10.0)
    report = Report("reference", exact=True, num_simulations=1234, seconds=3.0)
    theta = problem.truth + np.random.default_rng(0).normal(size=(1000, 2)) @ np.array(
        [[0.06, -0.01], [0.0, 0.025]]
    )
    return problem, Draws(
        theta, problem.model.names, report, derived=problem.model.derived_quantities(theta)
    )


@pytest.fixture(scope="module")
def sir_page(sir, tmp_path_factory):
    problem, posterior = sir
    path = tmp_path_factory.mktemp("report") / "report.html"
    command = "noisewise infer sir --epsilon 10 --seed 1 --out runs/a"
    options = {
        "model": problem.model,
        "observed": problem.observed,
        "truth": problem.truth,
        "command": command,
    }
    assert nw.reports.write_report(path, posterior, title="An epidemic", **options) == path
    return path.read_text()


@pytest.fixture(scope="module")
def full_page(tmp_path_factory):
    """A regression with everything that a report can hold, and hostile names wherever a user
    chooses them.
    """
    problem = nw.problems.linear_regression(10.0)
    names = (f"a{EVIL}", "b\"&'", "c$\\frac$$")
    theta = np.random.default_rng(0).normal((-0.6, -2.7, 0.6), (0.9, 0.7, 0.9), size=(500, 3))
    derived = {"sum <b>": theta.sum(axis=1), "broken": np.full(len(theta), np.inf)}
    warnings = (f"Beware of {EVIL}",)
    settings, diagnostics = {"num_chains": 16}, {f"odd {EVIL}": 1.0}
    report = Report.stated(
        "da-mcmc", settings=settings, exact=True, warnings=warnings, diagnostics=diagnostics
    )
    posterior = Draws(theta, names, report, derived=derived)
    naive = Draws(theta - 3.0, names, Report("naive"), derived={"sum <b>": theta.sum(axis=1) - 9.0})
    model = nw.PrivateModel(
        prior=nw.Prior({name: dist.Normal(0.0, 1.0) for name in names}),
        simulator=problem.model.simulator,
        query=problem.model.query,
        mechanism=problem.model.mechanism,
        derived={"sum <b>": lambda t: t.sum(axis=-1)},
    )
    release = nw.Release(
        problem.observed,
        problem.model.mechanism,
        names=tuple(f"s{j}{EVIL}" for j in range(9)),
        description=f"Moments {EVIL}",
    )
    parts = pd.DataFrame(
        {"sampling": [0.1, 0.1, 0.2], "clamping": [0.0, -1e-9, 0.1], "privacy": [0.5, 0.6, 0.7]},
        index=list(names),
    )
    path = tmp_path_factory.mktemp("full") / "report.html"
    nw.reports.write_report(
        path,
        posterior,
        title=f"A regression {EVIL}",
        model=model,
        observed=release,
        truth=dict(zip(names, problem.truth, strict=True)),
        naive=naive,
        decomposition=types.SimpleNamespace(table=parts, total=parts.sum(axis=1)),
        command=f"noisewise infer {EVIL}",
    )
    return path.read_text()


def test_the_page_stands_by_itself(sir_page):
    assert faults(sir_page) == []


def test_the_page_says_what_it_should(sir_page):
    page = Page(sir_page)
    text = page.text
    assert "R0 is about 12." in text
    assert "with 95% probability between" in text
    assert "epsilon = 9.995 differential privacy" in text
    assert "R0 is 12.18, which lies in the interval" in text
    assert "Simulation-based Bayesian Inference from Privacy Protected Data" in text
    assert "noisewise infer sir --epsilon 10 --seed 1 --out runs/a" in text
    assert "1,234" in text
    assert "Monte Carlo errors are at most" in text
    assert any(attributes.get("id") == "curve" for attributes in page.all("section"))
    # three marginals, pairs, the curve, the predictive check
    assert len(page.all("img")) == 6
    assert len(sir_page) < 1_500_000


def test_the_curve_is_drawn_given_the_release(sir, sir_page):
    """At time 34 the release says 614 of 1000, padded: 615,228 of 10^6 with an sd of 15,600; and
    epidemics that died out are not drawn.
    """
    middle, low, high = (
        int(text.replace(",", ""))
        for text in re.search(
            r"time 34: ([\d,]+) of 1,000,000, and with 95% probability between ([\d,]+) and"
            r" ([\d,]+)",
            Page(sir_page).text,
        ).groups()
    )
    assert 560_000 < low < middle < high < 660_000


def test_hostile_names_are_only_text(full_page):
    """Planted: with `escape` replaced by `str` this fails, the page then holding scripts."""
    assert faults(full_page) == []
    assert EVIL not in full_page
    page = Page(full_page)
    for text in (
        f"A regression {EVIL}",
        f"a{EVIL}",
        f"Beware of {EVIL}",
        f"s0{EVIL}",
        f"Moments {EVIL}",
        f"odd {EVIL}",
        "b\"&'",
    ):
        assert text in page.text, text
    assert f"noisewise infer {EVIL}" in page.text


def test_everything_given_is_shown(full_page):
    text = Page(full_page).text
    assert "Where the uncertainty comes from" in text
    assert "privacy" in text
    assert "naive answer" in text
    assert "whose interval does not hold the estimate" in text
    assert "Trust with care" in text  # there is a warning


@pytest.mark.parametrize(
    ("old", "new", "fault"),
    [
        ('src="data:', 'src="http://example.org/', "leads outside"),
        (' alt="', ' title="', "no alt"),
        ('id="answer"', 'id="other"', "no section answer"),
        ("</h1>", "</h1><script>1</script>", "there is a script"),
        ("</table>", "", "not closed"),
        ("<h2", "<h4", "skip a level"),
        ("width=device-width", "width=device-width", None),
        ('name="viewport"', 'name="other"', "no viewport"),
    ],
)
def test_planted_faults_are_found(sir_page, old, new, fault):
    found = faults(sir_page.replace(old, new))
    assert any(fault in text for text in found) if fault else found == []


# The verdict --------------------------------------------------------------------------------------


def assess(posterior, **known):
    return judge(Evidence.of(posterior, **known))


def draws(num=2000, **report):
    return Draws(
        np.random.default_rng(0).normal(size=(num, 1)), ("a",), Report.stated("method", **report)
    )


def test_exact_draws_are_trusted():
    assert assess(draws(exact=True)).level == "trust"


@pytest.mark.parametrize(
    ("posterior", "level", "reason"),
    [
        (draws(), "trust with care", "nothing has checked it"),
        (draws(exact=True, warnings=("hm",)), "trust with care", "warnings"),
        (draws(200, exact=True), "trust with care", "worth"),
        (draws(50, exact=True), "do not trust", "too few"),
        (draws(diagnostics={"power": 0.4}), "do not trust", "too wide"),
        (
            Draws(np.random.default_rng(0).normal(size=(2000, 1)), ("a",), Report("naive")),
            "do not trust",
            "naive",
        ),
    ],
)
def test_reservations_lower_the_verdict(posterior, level, reason):
    found = assess(posterior)
    assert found.level == level
    assert reason in found.reasons[0].sentence


def test_certificates_decide():
    """A law of the wrong place is not trusted, the corrected draws are; draws that differ from
    certified ones with care.
    """
    problem = nw.problems.gaussian_mean(1.0)
    good = problem.reference(KEY, 2000)
    theta = {"good": good, "off": good + 0.4 * good.std(), "poor": good + 30.0 * good.std()}
    posteriors = {
        name: Draws(value, problem.model.names, Report("learnt")) for name, value in theta.items()
    }
    found = {
        name: nw.diagnostics.certify(KEY, posterior, problem.model, problem.observed, 8000)
        for name, posterior in posteriors.items()
    }
    levels = {name: assess(posteriors[name], certificate=found[name]).level for name in theta}
    assert levels == {"good": "trust", "off": "trust with care", "poor": "do not trust"}
    assert assess(found["good"].corrected, certificate=found["good"]).level == "trust"


def rough(stretch, warning="Training ended early."):
    """A problem, and its posterior stretched, which warns of itself."""
    problem = nw.problems.gaussian_mean(1.0)
    good = problem.reference(KEY, 2000)
    report = Report.stated("learnt", num_simulations=777, num_failed=7, warnings=(warning,))
    return problem, Draws(good.mean() + stretch * (good - good.mean()), problem.model.names, report)


def page_of(tmp_path, posterior, **more):
    return Page(
        nw.reports.write_report(
            tmp_path / "report.html", posterior, title="A mean", **more
        ).read_text()
    ).text


def test_the_page_has_the_warnings_and_the_simulations_of_both_parts(tmp_path):
    """Planted: with the warnings and simulations of the posterior shown alone, both halves fail."""
    problem, approximation = rough(8.0)
    certificate = nw.diagnostics.certify(KEY, approximation, problem.model, problem.observed, 4000)
    assert certificate.verdict == "the approximation is poor"
    assert certificate.corrected.report.exact
    text = page_of(
        tmp_path, certificate.corrected, certificate=certificate, approximation=approximation
    )
    assert "Training ended early." in text
    assert "777 (7 failed) for the inference and 4,000 for its certificate, 4,777 in all" in text
    assert (
        text.count(certificate.finding) == 1
    )  # by the certificate, not once more among the warnings
    assert "They are exact and may be used." in text
    assert "certificate.corrected" not in text
    assert "Trust with care" in text
    assert "one exact draw would cost if the approximation were perfect" in text
    itself = page_of(tmp_path, approximation, certificate=certificate)
    assert "Training ended early." in itself
    assert "4,777 in all" in itself
    assert "Do not trust" in itself


def test_what_is_certified_makes_up_for_warnings_of_the_approximation(tmp_path):
    problem, approximation = rough(1.0)
    certificate = nw.diagnostics.certify(KEY, approximation, problem.model, problem.observed, 8000)
    assert certificate.certified
    text = page_of(
        tmp_path, certificate.corrected, certificate=certificate, approximation=approximation
    )
    assert "Training ended early." not in text
    assert "8,777 in all" in text


def test_few_draws_make_no_statement(tmp_path):
    """Planted: without the least number of draws the sentence states an interval."""
    few, many = (page_of(tmp_path, draws(num, exact=True)) for num in (50, 2000))
    assert "There is no answer for a yet" in few
    assert "with 95% probability" not in few
    assert "with 95% probability" in many


def test_predictions_unlike_the_release_are_not_trusted():
    problem = nw.problems.gaussian_mean(1.0)
    exact = Draws(problem.reference(KEY, 1000), problem.model.names, Report("exact", exact=True))
    for shift, level in ((0.0, "trust"), (100.0, "do not trust")):
        check = nw.diagnostics.predictive_check(
            KEY, exact, problem.model, problem.observed + shift, 400
        )
        assert assess(exact, check=check).level == level


# Inputs -------------------------------------------------------------------------------------------


def test_a_posterior_alone_is_enough(tmp_path):
    path = nw.reports.write_report(tmp_path / "report.html", draws(exact=True), title="A")
    assert faults(path.read_text()) == []
    path = nw.reports.write_report(path, draws(exact=True), title="B")
    assert "<title>B</title>" in path.read_text()
    assert [file.name for file in tmp_path.iterdir()] == ["report.html"]


def test_infinite_draws_have_no_pictures(tmp_path):
    """A derived quantity that is infinite is left out; if nothing is finite, the page says so."""
    theta = np.where(np.arange(200) < 100, 1.0, np.inf)[:, None]
    with np.errstate(invalid="ignore"):
        text = page_of(tmp_path, Draws(theta, ("a",), Report("method", exact=True)))
    assert "No quantity is finite in all draws." in text


@pytest.mark.parametrize(
    ("change", "error", "words"),
    [
        ({"posterior": 3}, InvalidTypeError, "needs a posterior second"),
        ({"title": "two\nlines"}, InvalidInputError, "title"),
        ({"model": "sir"}, InvalidTypeError, "PrivateModel"),
        ({"model": nw.problems.sir().model}, InvalidInputError, "the model of log_beta"),
        ({"truth": [1.0, 2.0]}, InvalidInputError, "truth"),
        ({"certificate": 1}, InvalidTypeError, "certify"),
        (
            {"approximation": draws()},
            InvalidTypeError,
            "the posterior that the certificate was made for",
        ),
        ({"naive": 1}, InvalidTypeError, "NaivePlugIn"),
        ({"release": 1}, InvalidTypeError, "Release"),
        ({"path": 1}, InvalidTypeError, "path"),
    ],
)
def test_bad_inputs_are_refused(tmp_path, change, error, words):
    given = {
        "path": tmp_path / "report.html",
        "posterior": draws(exact=True),
        "title": "A",
        **change,
    }
    with pytest.raises(error, match=words):
        nw.reports.write_report(given.pop("path"), given.pop("posterior"), **given)
    assert not list(tmp_path.iterdir())


def test_numbers_have_the_digits_that_matter():
    assert [
        number(v, sd)
        for v, sd in [(1.23456, 0.1), (123.456, 20.0), (1e-7, 1e-8), (5.0, 0.0), (-0.004, 0.9)]
    ] == [
        "1.23",
        "123",
        "1e-07",
        "5",
        "0.00",
    ]


# A real browser -----------------------------------------------------------------------------------

needs_browser = pytest.mark.skipif(chromium() is None, reason="no Chromium is installed")


@pytest.fixture(scope="module")
def measured_page(tmp_path_factory):
    """A page with a certificate, and with everything that may be measured, under its longest
    names.
    """
    problem, approximation = rough(1.5)
    certificate = nw.diagnostics.certify(KEY, approximation, problem.model, problem.observed, 4000)
    numbers = dict.fromkeys(MEASURED, 0.123456)
    report = dataclasses.replace(certificate.corrected.report, numbers=numbers)
    certificate.corrected.report = report
    path = tmp_path_factory.mktemp("measured") / "report.html"
    known = {"model": problem.model, "observed": problem.observed, "truth": problem.truth}
    nw.reports.write_report(
        path,
        certificate.corrected,
        title="A mean",
        certificate=certificate,
        approximation=approximation,
        **known,
    )
    return path.read_text()


PAGES = ("sir_page", "full_page", "measured_page")


@needs_browser
@pytest.mark.parametrize(
    ("page", "width"),
    [
        pytest.param(page, width, marks=[] if i == j else [pytest.mark.slow])
        for i, page in enumerate(PAGES)
        for j, width in enumerate(WIDTHS)
    ],
)
def test_a_browser_shows_it(page, width, request, tmp_path):
    found = look(tmp_path, request.getfixturevalue(page), width=width)
    assert complaints(found, width=width) == []
    assert len(found["images"]) >= 2
    assert len(found["texts"]) >= 40


OLD_LISTS = "dl { grid-template-columns: minmax(7rem, max-content) 1fr; }"
"""A column of names as wide as the longest, which left one letter per line for the values."""


@needs_browser
@pytest.mark.parametrize("width", [1280, pytest.param(900, marks=pytest.mark.slow)])
def test_the_browser_sees_columns_of_one_letter(measured_page, width, tmp_path):
    old = measured_page.replace("</style>", f"{OLD_LISTS}</style>")
    found = complaints(look(tmp_path, old, width=width), width=width)
    assert any("narrow column: dd" in text or "broken words: dd" in text for text in found), found


@needs_browser
def test_the_browser_sees_planted_faults(sir_page, tmp_path):
    planted = (
        '<script>console.error("planted")</script><img src="data:image/png;base64,AAAA" alt="x">'
    )
    planted += '<p style="width:900px;font-size:5px">w</p>'
    found = complaints(look(tmp_path, sir_page.replace("</h1>", f"</h1>{planted}")))
    assert {"900 px wide", "an image is missing", "small type: p 'w'", "clipped: p 'w'"} <= {
        re.sub(r"^9\d\d px", "900 px", text) for text in found
    }
    assert any("planted" in text for text in found)
