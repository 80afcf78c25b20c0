"""What every learnt object must do with files, on one small model: rate ~ LogNormal, s = rate +
N(0, .3^2), s_dp = s + Laplace noise.
"""

import copy
import json

import jax
import numpy as np
import numpyro.distributions as dist
import pytest

import noisewise as nw
from noisewise.estimators.files import density_arrays
from noisewise.runs.array_files import read_arrays, write_arrays
from tests.hostile import damaged


def a_model(*, parameter="rate", sd=0.5, statistic="total", scale=0.1):
    simulator = nw.simulators.JaxSimulator(
        lambda key, theta: theta + 0.3 * jax.random.normal(key, (1,))
    )
    return nw.PrivateModel(
        prior=nw.Prior({parameter: dist.LogNormal(0.0, sd)}),
        simulator=simulator,
        query=nw.queries.FunctionQuery(lambda x: x, names=(statistic,)),
        mechanism=nw.mechanisms.Laplace(scale=scale),
    )


def check_survives(fit, path, values):
    """`values(fit)`, the text and the report are the same after saving, to the last bit; an archive
    is not written over.
    """
    fit.save(path)
    again = type(fit).load(path, a_model())
    assert np.array_equal(values(again), values(fit))
    assert repr(again) == repr(fit)
    assert again.report == fit.report
    with pytest.raises(nw.errors.InvalidInputError, match="holds an archive"):
        fit.save(path)
    again.save(path, overwrite=True)
    assert np.array_equal(values(type(fit).load(path, a_model())), values(fit))
    return again


def check_refuses(fit, path, others):
    """Models that differ, as `others` say by what the error names, other kinds, and altered or
    damaged files are refused.
    """
    kind = type(fit)
    fit.save(path)
    for text, model in others.items():
        with pytest.raises(nw.errors.InvalidInputError, match=text):
            kind.load(path, model)
    with pytest.raises(nw.errors.InvalidTypeError, match="PrivateModel"):
        kind.load(path, "model")
    with pytest.raises(nw.errors.FileFormatError, match="kind"):
        nw.load_posterior(path)
    with pytest.raises(nw.errors.InvalidInputError, match="no folder"):
        kind.load(path / "nothing", a_model())
    _check_manifests(fit, path)
    content, arrays = read_arrays(path / "arrays.safetensors")
    arrays["scale.mean"] = np.nextafter(arrays["scale.mean"], np.inf)
    write_arrays(path / "arrays.safetensors", content, arrays, overwrite=True)
    with pytest.raises(nw.errors.FileFormatError, match="does not match its sha256"):
        kind.load(path, a_model())
    own = copy.copy(fit)
    own.estimator = None
    with pytest.raises(nw.errors.InvalidInputError, match="can be saved"):
        own.save(path.with_name("own"))


def _check_manifests(fit, path):
    """Seeded damage gives a typed error or, where nothing depends on it, the same network."""
    kind, manifest = type(fit), path / "manifest.json"
    text = manifest.read_text()
    record = json.loads(text)
    for place in ("model", "estimator", "degree", "report", "own"):
        broken = copy.deepcopy(record)
        broken["content"][place] = [1]
        manifest.write_text(json.dumps(broken))
        with pytest.raises(nw.errors.FileFormatError):
            kind.load(path, a_model())
    refused = 0
    for content in damaged(text, np.random.default_rng(0), 40):
        manifest.write_bytes(content)
        try:
            again = kind.load(path, a_model())
        except nw.errors.NoisewiseError:
            refused += 1
        else:
            same = density_arrays(fit.density)
            assert all(
                np.array_equal(array, same[name])
                for name, array in density_arrays(again.density).items()
            )
    assert refused > 20
    manifest.write_text(text)
    kind.load(path, a_model())
