"""Thousands of damaged files into every loader: a typed error, or what was saved, and never much
memory.

Files are cut, flipped, filled with foreign keys, huge headers, deep nesting and numbers beyond
float64. Where a file carries the sha256 of what it holds, half of the damage is done before that is
computed, as by someone who knows how: such files may tell something else, but nothing else may
happen. Planted, and caught: readers of archives, of journals and of run.json that do not look at
the sha256; a state of chains that is taken whatever its steps are.
"""

import collections
import contextlib
import functools
import itertools
import json
import tracemalloc

import jax
import numpy as np
import numpyro.distributions as dist
import pytest

import noisewise as nw
from noisewise import errors
from noisewise._core.json_files import sealed
from noisewise.runs.array_files import _digest, packed, unpacked
from noisewise.runs.journal import Journal
from noisewise.runs.journal_files import Result, journal_files, read_contents
from tests.hostile import damaged
from tests.inference.fit_files import a_model
from tests.inference.methods import QUICK, SMALL
from tests.runs.old_archives import to_version_1
from tests.runs.problems import arrays_of

KEY = jax.random.key(5)
FAST, SLOW = 1000, 10_000
MEMORY = 64 * 2**20
"""No file here holds a hundredth of it; looked at for every 20th, since that takes time."""
_LOOK = 20


@functools.cache
def posteriors():
    problem = nw.problems.gaussian_mean(1.0)
    learner = nw.inference.PrivatePosteriorEstimation(
        num_rounds=1, num_simulations=60, estimator=SMALL, training=QUICK, num_noise=1, noise_bank=2
    )
    methods = {
        "Draws": nw.inference.NaivePlugIn(num_draws=20),
        "WeightedSamples": nw.inference.ImportanceSampling(num_stages=0, num_final=30),
        "LearnedPosterior": learner,
    }
    return {
        name: m.infer(KEY, problem.model, problem.observed, progress=False)
        for name, m in methods.items()
    }


@functools.cache
def fits():
    training = {"estimator": SMALL, "training": QUICK, "num_simulations": 60}
    noisy = {"num_noise": 1, "noise_bank": 2}
    methods = [
        nw.inference.PrivatePosteriorEstimation(num_rounds=1, **training, **noisy),
        nw.inference.PrivateLikelihoodEstimation(num_rounds=1, **training, **noisy),
        nw.inference.ConfidentialLikelihoodEstimation(num_members=1, **training),
    ]
    return [method.fit(KEY, a_model(), progress=False) for method in methods]


# One file each: what writes it, where it is, what reads it, and what of it must be as it was ------


def a_posterior(folder, kind):
    posteriors()[kind].save(folder / "p")

    def read():
        again = nw.load_posterior(folder / "p")
        return [
            again.names,
            again.report,
            *(np.asarray(array).tobytes() for array in arrays_of(again).values()),
        ]

    return folder / "p", read


def an_old_posterior(folder, kind):
    path, read = a_posterior(folder, kind)
    to_version_1(path)
    return path, read


def a_fit(folder, number):
    fit = fits()[number]
    fit.save(folder / "f")

    def read():
        again = type(fit).load(folder / "f", a_model())
        return [repr(again), *(array.tobytes() for array in again._own_arrays().values())]

    return folder / "f", read


def a_run(folder):
    model = a_model()
    method = nw.inference.SMCABC(num_particles=30, num_rounds=2)
    method.infer(KEY, model, [1.0], run_dir=folder / "r", progress=False)
    return folder / "r", lambda: str(nw.runs.read_run(folder / "r").identity)


def a_journal_file(folder):
    path, _ = a_run(folder)
    record = nw.runs.read_run(path)
    first = journal_files(path / "journal")[0]

    def read():
        contents = read_contents(first, record.id)
        return [str(contents.steps), *(array.tobytes() for array in contents.arrays.values())]

    return first, read


def a_state(folder):
    journal = Journal(folder, "run")
    journal.begin()
    journal.recall_move("sweeps")
    journal.keep(
        "sweeps",
        Result({"a": np.arange(3.0)}, "finished"),
        state=[np.arange(4.0), np.ones(2, dtype=bool)],
    )
    journal.flush()
    path = folder / "state.safetensors"

    def read():
        again = Journal(folder, "run")
        again.begin()
        found = again.recall_move("sweeps")
        if found is None:
            raise errors.FileFormatError("dropped")
        return [part.tobytes() for part in found[1]]

    return path, read


def a_release(folder):
    query = nw.queries.ClampedMean(bounds=(0.0, 1.0), num_records=4)
    nw.release([0.1, 0.2, 0.3, 0.4], query, nw.PureDP(1.0)).save(folder / "release.json")
    return folder / "release.json", lambda: nw.Release.load(folder / "release.json")


def a_ledger(folder):
    nw.Ledger(folder / "ledger.json", limit=nw.PureDP(2.0)).spend(nw.PureDP(0.5), "first")
    return folder / "ledger.json", lambda: nw.Ledger(folder / "ledger.json").spent


def a_prior(folder):
    laws = {"rate": dist.LogNormal(0.0, 1.0), "p": dist.Dirichlet(np.ones(3))}
    (folder / "prior.json").write_text(json.dumps(nw.Prior(laws).to_spec()))

    def read():
        from noisewise._core.json_files import read_json

        return nw.Prior.from_spec(read_json(folder / "prior.json", "prior"))

    return folder / "prior.json", read


# Damage -------------------------------------------------------------------------------------------


def damaged_json(text, rng, count, *, has_seal):
    """(content, whether its sha256 tells nothing); every fourth is sealed anew, where it still is
    an object.
    """
    for number, content in enumerate(damaged(text, rng, count)):
        forged = not has_seal
        if has_seal and number % 4 == 0:
            with contextlib.suppress(ValueError, RecursionError):
                value = json.loads(content)
                if isinstance(value, dict):
                    content, forged = json.dumps(sealed(value)).encode(), True
        yield content, forged


def damaged_bytes(content, rng, count):
    """Cut, flipped, repeated, lengthened; first bytes replaced by lengths of any size."""
    for number in range(count):
        at, kind = int(rng.integers(len(content))), number % 5
        if kind == 0:
            yield content[:at]
        elif kind == 1:
            yield (
                content[:at]
                + bytes([content[at] ^ (1 << int(rng.integers(8)))])
                + content[at + 1 :]
            )
        elif kind == 2:
            yield content[:at] + content[max(0, at - 50) :]
        elif kind == 3:
            yield content + bytes(int(rng.integers(1, 100)))
        else:
            yield int(rng.integers(2**63)).to_bytes(8, "little") + content[8:]


def damaged_arrays(content, rng, count):
    """Half of them with damage in the header, or in what the file tells, which then has a sha256
    that fits.
    """
    inside, arrays = unpacked(content, "it")
    trees = damaged(json.dumps(inside or {"a": 1}), rng, count)
    for number, broken in enumerate(damaged_bytes(content, rng, count)):
        tree = next(trees)
        if number % 2:
            yield broken, False
            continue
        try:
            value = json.loads(tree)
        except (ValueError, RecursionError):
            value = None
        if not isinstance(value, dict) or number % 4:
            yield _with_header(content, rng), False
        else:
            yield packed(_plain(value), arrays), True


def _plain(value):
    return json.loads(json.dumps(value), parse_constant=lambda name: 0)


def _with_header(content, rng):
    """The header of a file of arrays damaged as JSON is, with the right length before it."""
    size = int.from_bytes(content[:8], "little")
    header = next(iter(damaged(content[8 : 8 + size].decode(), rng, 1)))
    return len(header).to_bytes(8, "little") + header + content[8 + size :]


POSTERIORS = ("Draws", "WeightedSamples", "LearnedPosterior")
FITS = ("amortised posterior", "likelihood", "confidential likelihood")
FILES = ("manifest.json", "arrays.safetensors")
OLD_FILES = ("manifest.json", "arrays.npz")


def loaders():
    """(loader, file) -> what makes it and its name; the files of a loader share the number of
    damaged ones.
    """
    for kind, file in itertools.product(POSTERIORS, FILES):
        yield ("posterior", f"{kind} {file}"), (functools.partial(a_posterior, kind=kind), file)
    for kind, file in itertools.product(POSTERIORS, OLD_FILES):
        make = functools.partial(an_old_posterior, kind=kind)
        yield ("posterior of version 1", f"{kind} {file}"), (make, file)
    for (number, name), file in itertools.product(enumerate(FITS), FILES):
        yield ("fit", f"{name} {file}"), (functools.partial(a_fit, number=number), file)
    yield ("run", "run.json"), (a_run, "run.json")
    yield ("journal", "steps"), (a_journal_file, None)
    yield ("journal", "state of chains"), (a_state, None)
    for name, make in {"release": a_release, "ledger": a_ledger, "prior": a_prior}.items():
        yield (name, name), (make, None)


LOADERS = dict(loaders())
NUM_FILES = collections.Counter(loader for loader, _ in LOADERS)


def check(loader, name, folder, total):
    make, file = LOADERS[loader, name]
    path, read = make(folder)
    path = path / file if file else path
    content, expected = path.read_bytes(), read()
    rng = np.random.default_rng(sum(map(ord, name)))
    count = -(-total // NUM_FILES[loader])
    if path.suffix == ".json":
        copies = damaged_json(
            content.decode(), rng, count, has_seal=path.name in ("manifest.json", "run.json")
        )
    elif path.suffix == ".safetensors":
        copies = damaged_arrays(content, rng, count)
    else:
        copies = ((broken, False) for broken in damaged_bytes(content, rng, count))
    refused = 0
    for number, (broken, forged) in enumerate(copies):
        path.write_bytes(broken)
        with measured() if number % _LOOK == 0 else contextlib.nullcontext():
            try:
                again = read()
            except errors.NoisewiseError:
                refused += 1
            else:
                assert forged or again == expected
    assert refused > count // 2
    path.write_bytes(content)
    assert read() == expected


@contextlib.contextmanager
def measured():
    tracemalloc.start()
    yield
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < MEMORY


NEEDS_TRAINING = {("fit", f"{name} {file}") for name in FITS[1:] for file in FILES}


@pytest.mark.parametrize(
    ("loader", "name"),
    [
        pytest.param(*case, marks=pytest.mark.slow) if case in NEEDS_TRAINING else case
        for case in LOADERS
    ],
)
def test_damaged_files_give_typed_errors(loader, name, tmp_path):
    check(loader, name, tmp_path, FAST)


@pytest.mark.slow
@pytest.mark.parametrize(("loader", "name"), LOADERS)
def test_many_damaged_files_give_typed_errors(loader, name, tmp_path):
    check(loader, name, tmp_path, SLOW)


def _file(header, data=b""):
    text = json.dumps(header).encode()
    return len(text).to_bytes(8, "little") + text + data


CROWDED = {
    f"a{number}": {"dtype": "F64", "shape": [0], "data_offsets": [0, 0]} for number in range(30_000)
}
CRAFTED = {
    "more arrays than are written": _file(
        {"__metadata__": {"content": "{}", "sha256": ""}, **CROWDED}
    ),
    "a header of 5 MiB": _file({"__metadata__": {"content": "x" * 5 * 2**20, "sha256": ""}}),
    "a name of 1 MiB": _file(
        {
            "n" * 2**20: {"dtype": "F64", "shape": [-1], "data_offsets": [0, 0]},
            "__metadata__": {"content": "{}", "sha256": ""},
        }
    ),
}


REFUSED = {
    "more arrays than are written": "describes more arrays",
    "a header of 5 MiB": "no header of this kind",
    "a name of 1 MiB": "nnn",
}


@pytest.mark.parametrize("name", CRAFTED, ids=str)
def test_headers_of_strangers_cost_little(name):
    """A header is limited before it is parsed, so that a manifest and a header together stay below
    256 MiB; messages show little of a stranger's words.
    """
    tracemalloc.start()
    try:
        with pytest.raises(errors.FileFormatError, match=REFUSED[name]) as refused:
            unpacked(CRAFTED[name], "The file a")
        assert tracemalloc.get_traced_memory()[1] < 32 * 2**20
    finally:
        tracemalloc.stop()
    assert len(str(refused.value)) < 300


def test_booleans_are_0_or_1_and_no_array_takes_the_place_of_the_metadata():
    good = packed({}, {"flags": np.array([True, False])})
    assert unpacked(good, "The file a")[1]["flags"].tolist() == [True, False]
    table = {"flags": {"dtype": "BOOL", "shape": [2], "data_offsets": [0, 2]}}
    for data, words in ((bytes([1, 0]), None), (bytes([1, 2]), "neither 0 nor 1")):
        metadata = {"content": "{}", "sha256": _digest("{}", table, data)}
        crafted = _file({"__metadata__": metadata, **table}, data)
        if words is None:
            assert unpacked(crafted, "The file a")[1]["flags"].tolist() == [True, False]
            continue
        with pytest.raises(errors.FileFormatError, match=words):
            unpacked(crafted, "The file a")
    with pytest.raises(errors.InvalidInputError, match="cannot be called __metadata__"):
        packed({}, {"__metadata__": np.zeros(1)})
