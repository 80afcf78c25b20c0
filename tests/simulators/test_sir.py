"""SIR: what it refuses, what its options mean, reproducibility, the differential equation,
statistics.
"""

import dataclasses
import threading

import jax
import numba
import numpy as np
import pytest
from scipy.integrate import solve_ivp

import noisewise as nw
from noisewise.errors import InvalidInputError, InvalidTypeError, SimulationError

KEY = jax.random.key(11)
TIMES = (0.0, 2.0, 5.0, 17.0, 34.0, 51.0, 85.0, 119.0, 153.0)
TRUTH = np.array([[-0.5, -3.0]])
SIR = nw.simulators.SIR


def simulate(population=2000, theta=TRUTH, num=40, key=KEY, times=TIMES, **options):
    return SIR(population, times, **options).simulate(key, np.repeat(theta, num, axis=0))


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"population": 0}, InvalidInputError, "population must be a whole number >= 1"),
        ({"population": -5}, InvalidInputError, "population must be a whole number >= 1"),
        ({"population": 10.5}, InvalidTypeError, "population must be a whole number"),
        ({"population": 10**11}, InvalidInputError, "at most 10000000000"),
        ({"times": [3.0, 1.0]}, InvalidInputError, "increasing"),
        ({"times": [1.0, 1.0]}, InvalidInputError, "increasing"),
        ({"times": [-1.0, 1.0]}, InvalidInputError, "none below 0"),
        ({"times": [0.0, np.inf]}, InvalidInputError, "finite"),
        ({"times": []}, InvalidInputError, "at least one time"),
        ({"times": 3.0}, InvalidInputError, "at least one time"),
        ({"times": "soon"}, InvalidTypeError, "array of numbers"),
        (
            {"initial_infected": 0},
            InvalidInputError,
            "initial_infected must be a whole number >= 1",
        ),
        ({"initial_infected": 101}, InvalidInputError, "at most the population, 100 people"),
        ({"method": "tau"}, InvalidInputError, "'leap', 'gillespie'"),
        ({"dynamics": "sde"}, InvalidInputError, "'stochastic', 'ode'"),
        ({"variant": "seir"}, InvalidInputError, "'sir', 'si'"),
        ({"variant": ["sir"]}, InvalidInputError, "'sir', 'si'"),
        ({"backend": "torch"}, InvalidInputError, "'numba', 'jax'"),
        ({"backend": "jax", "method": "gillespie"}, InvalidInputError, 'backend="numba"'),
        ({"backend": "jax", "dynamics": "ode"}, InvalidInputError, 'backend="numba"'),
        ({"log_parameters": "yes"}, InvalidTypeError, "True or False"),
        ({"switch": 10}, InvalidInputError, "switch must be a whole number >= 50"),
        ({"leap": 0.0}, InvalidInputError, "leap must be a finite number > 0"),
        ({"leap": 0.5}, InvalidInputError, "<= 0.25"),
    ],
)
def test_bad_settings_are_refused(change, error, message):
    with pytest.raises(error, match=message):
        SIR(**({"population": 100, "times": [1.0, 2.0]} | change))


@pytest.mark.parametrize(
    ("options", "theta", "message"),
    [
        ({}, [[-0.5]], r"\(N, 2\), columns log_beta, log_gamma"),
        ({"variant": "si"}, [[-0.5, -3.0]], r"\(N, 1\), columns log_beta"),
        ({"log_parameters": False}, [[0.5, 0.1, 0.1]], "columns beta, gamma"),
        ({}, [[-0.5, -3.0], [-0.5, 800.0]], "log_gamma is 800 in row 1.*log_parameters=False"),
        ({}, [[300.0, -3.0]], "log_beta is 300 in row 0"),
        ({"log_parameters": False}, [[-0.5, 0.1]], "beta is -0.5 in row 0. Rates are >= 0"),
        ({}, [[np.nan, -3.0]], "finite"),
        ({}, [[np.inf, -3.0]], "finite"),
        ({}, [-0.5, -3.0], r"theta\[None\]"),
    ],
)
def test_bad_parameters_are_refused(options, theta, message):
    with pytest.raises(InvalidInputError, match=message):
        SIR(100, [1.0], **options).simulate(KEY, theta)


def test_settings_are_values():
    model = SIR(np.int64(100), np.array([0, 2, 4]), initial_infected=3)
    assert model == SIR(100, (0.0, 2.0, 4.0), initial_infected=3)
    assert hash(model) == hash(SIR(100, [0, 2, 4], initial_infected=3))
    assert SIR(100, range(1, 4)).times == (1.0, 2.0, 3.0)
    assert model.parameter_names == ("log_beta", "log_gamma")
    assert SIR(100, [1.0], variant="si", log_parameters=False).parameter_names == ("beta",)


@pytest.mark.parametrize(
    "options",
    [{}, {"method": "gillespie"}, {"dynamics": "ode"}, {"variant": "si"}],
    ids=lambda o: str(o),
)
def test_curves_are_counts_from_the_initial_state(options, x64_flag):
    theta = TRUTH[:, : len(SIR(9, [1.0], **options).parameter_names)]
    x = simulate(theta=theta, initial_infected=700, **options)
    assert x.shape == (40, 9)
    assert x.dtype == np.float64
    assert (x[:, 0] == 700).all()
    assert ((x >= 0) & (x <= 2000)).all()
    if "dynamics" not in options:
        assert (x == np.rint(x)).all()
        assert len(np.unique(x[:, 1])) > 10


def test_logs_and_rates_agree():
    logs = simulate(num=20)
    rates = simulate(theta=np.exp(TRUTH), num=20, log_parameters=False)
    assert np.array_equal(logs, rates)


@pytest.mark.parametrize("dynamics", ["stochastic", "ode"])
@pytest.mark.parametrize("method", ["leap", "gillespie"])
def test_without_recovery_nobody_recovers(method, dynamics):
    """SI is SIR with gamma = 0: I never falls, and at last everyone is infected."""
    options = {
        "method": method,
        "dynamics": dynamics,
        "log_parameters": False,
        "initial_infected": 5,
    }
    times = (1.0, 5.0, 20.0, 500.0)
    si = simulate(theta=np.array([[0.8]]), variant="si", times=times, **options)
    sir = simulate(theta=np.array([[0.8, 0.0]]), times=times, **options)
    assert np.array_equal(si, sir)
    assert (np.diff(si, axis=1) >= 0).all()
    assert si[:, -1] == pytest.approx(2000)


@pytest.mark.parametrize(
    "options", [{}, {"method": "gillespie"}, {"dynamics": "ode"}, {"backend": "jax"}]
)
def test_nothing_happens_without_rates(options):
    x = simulate(
        theta=np.zeros((1, 2)), num=3, log_parameters=False, initial_infected=900, **options
    )
    assert (x == 900).all()


@pytest.mark.parametrize("options", [{}, {"method": "gillespie"}, {"dynamics": "ode"}])
@pytest.mark.parametrize(
    "rates", [(1e100, 1e-3), (1e-300, 1e-300), (1e100, 1e100), (1e-300, 1e100), (1e6, 1.0)]
)
def test_extreme_rates_end(rates, options):
    x = simulate(
        theta=np.array([rates]), num=5, log_parameters=False, initial_infected=600, **options
    )
    assert np.isfinite(x).all()
    assert ((x >= 0) & (x <= 2000)).all()


def test_everyone_infected_at_the_start_only_recovers():
    """I(t) ~ Binomial(K, exp(-gamma t)): mean within 5 standard errors, by events and by leaps."""
    rates, num = np.array([[0.7, 0.3]]), 2000
    for method in ("leap", "gillespie"):
        x = simulate(
            theta=rates,
            num=num,
            times=(3.0,),
            log_parameters=False,
            initial_infected=2000,
            method=method,
        )
        p = np.exp(-0.9)
        assert abs(x.mean() - 2000 * p) < 5 * np.sqrt(2000 * p * (1 - p) / num)
        assert x.var() == pytest.approx(2000 * p * (1 - p), rel=5 * np.sqrt(2 / num))


def test_below_the_switch_leaping_is_gillespie():
    leap = simulate(population=400)
    assert np.array_equal(leap, simulate(population=400, method="gillespie"))
    assert not np.array_equal(
        simulate(population=20_000), simulate(population=20_000, method="gillespie")
    )


@pytest.mark.parametrize("options", [{}, {"method": "gillespie"}, {"backend": "jax"}])
def test_an_epidemic_depends_on_key_and_place_only(options, monkeypatch):
    """Bit-identical whatever the number of threads, the size of the pieces, and how many epidemics
    follow.
    """
    reference = simulate(population=3000, num=300, **options)
    assert np.array_equal(simulate(population=3000, num=37, **options), reference[:37])
    for threads in (1, 2, 7):
        monkeypatch.setattr(numba.config, "NUMBA_NUM_THREADS", threads)
        assert np.array_equal(simulate(population=3000, num=300, **options), reference)
    assert not np.array_equal(
        simulate(population=3000, num=300, key=jax.random.key(12), **options), reference
    )
    assert len(np.unique(reference[:, 2])) > 20


def test_calls_from_several_threads_at_once():
    expected = simulate(num=500)
    results = [None] * 4

    def run(place):
        results[place] = simulate(num=500)

    threads = [threading.Thread(target=run, args=(place,)) for place in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(np.array_equal(result, expected) for result in results)


def test_raw_and_other_keys_work():
    raw, rbg = jax.random.PRNGKey(11), jax.random.key(11, impl="rbg")
    assert np.array_equal(simulate(key=raw), simulate())
    assert simulate(key=rbg).shape == (40, 9)
    assert simulate(key=rbg, backend="jax", num=3).shape == (3, 9)


ODES = [
    (0.6, 0.05, 1_000_000, 1),
    (0.4, 0.125, 1_000_000, 1),
    (0.2, 0.5, 1_000_000, 100),
    (3.0, 1.0, 2000, 10),
    (0.6, 0.0, 1_000_000, 1),
    (40.0, 1.0, 1_000_000, 1),
    (0.21, 0.2, 10**9, 1),
]


def solved(beta, gamma, population, initial, times):
    """The same curve by scipy, in logarithms, at tolerances of 1e-12."""
    start = [np.log(initial / population), np.log1p(-initial / population)]
    slopes = lambda t, y: [beta * np.exp(y[1]) - gamma, -beta * np.exp(y[0])]
    solution = solve_ivp(
        slopes, (0.0, times[-1]), start, method="DOP853", t_eval=times, rtol=1e-12, atol=1e-12
    )
    return population * np.exp(solution.y[0])


@pytest.mark.parametrize(("beta", "gamma", "population", "initial"), ODES)
def test_the_differential_equation_to_eight_digits(beta, gamma, population, initial):
    times = np.array([0.0, 0.5, 3.0, 17.0, 34.0, 60.0, 153.0])
    options = {
        "times": times,
        "initial_infected": initial,
        "dynamics": "ode",
        "log_parameters": False,
        "num": 1,
    }
    x = simulate(population=population, theta=np.array([[beta, gamma]]), **options)[0]
    expected = solved(beta, gamma, population, initial, times)
    assert x == pytest.approx(expected, rel=1e-8)
    wrong = simulate(
        population=population, theta=np.array([[beta * (1 + 1e-6), gamma]]), **options
    )[0]
    assert wrong != pytest.approx(expected, rel=1e-8)


def test_the_differential_equation_ignores_the_key():
    assert np.array_equal(
        simulate(dynamics="ode"), simulate(dynamics="ode", key=jax.random.key(99))
    )


@pytest.mark.parametrize("options", [{}, {"dynamics": "ode"}])
def test_statistics_are_the_query_of_each_curve(options):
    model = SIR(2000, TIMES, initial_infected=20, **options)
    theta = np.repeat(TRUTH, 300, axis=0)
    x = model.simulate(KEY, theta)
    assert model.statistics(KEY, theta, lambda x: x[1:]) == pytest.approx(x[:, 1:], rel=1e-15)
    peak = model.statistics(KEY, theta, lambda x: [float(np.max(x)), float(np.argmax(x))])
    assert np.array_equal(peak, np.stack([x.max(1), x.argmax(1)], axis=1))
    assert model.statistic_width(KEY, theta, lambda x: x[1:]) == 8
    assert model.statistic_width(KEY, theta, lambda x: [float(x[0])]) == 1


def test_the_infection_curve_is_the_curve():
    model = SIR(2000, TIMES)
    query = nw.queries.InfectionCurve(population=2000, num_times=len(TIMES))
    theta = np.repeat(TRUTH, 50, axis=0)
    assert np.array_equal(model.statistics(KEY, theta, query), model.simulate(KEY, theta))


@pytest.mark.parametrize(
    "query", [lambda x: x[1], lambda x: float(x[1])], ids=["traced", "not traced"]
)
def test_a_statistic_of_one_number_is_one_column(query):
    model = SIR(2000, TIMES, initial_infected=10)
    theta = np.repeat(TRUTH, 20, axis=0)
    assert np.array_equal(model.statistics(KEY, theta, query), model.simulate(KEY, theta)[:, 1:2])


@pytest.mark.parametrize(
    ("query", "message"),
    [
        (nw.queries.InfectionCurve(population=2000, num_times=7), r"counts, of shape \(7,\)"),
        (lambda x: x[None], r"shape \(k,\), got \(1, "),
        (lambda x: {}[0], "KeyError"),
        (lambda x: [float(v) for v in x[: int(x[1] > 20) + 1]], "one shape"),
    ],
)
def test_a_failing_query_is_reported(query, message):
    with pytest.raises(SimulationError, match=message):
        SIR(2000, TIMES, initial_infected=10).statistics(KEY, np.repeat(TRUTH, 40, axis=0), query)


def test_settings_can_be_replaced():
    model = dataclasses.replace(SIR(2000, TIMES), method="gillespie")
    assert model.method == "gillespie"
