"""Thousands of hostile directories into every loader: a typed error or what was saved, no code, no
touch outside, little memory, no wait.

Planted, and caught: files that are opened whatever they are, or by way of links; folders in which
nobody looks for links. The readers of before, which looked arrays up by name, unpacked members and
believed headers, fail most of these tests.
"""

import contextlib
import functools
import hashlib
import io
import json
import os
import sys

import numpy as np
import pytest

import noisewise as nw
from noisewise import errors
from noisewise._core.json_files import parse_json, read_json, sealed
from noisewise._core.regular_files import read_regular
from noisewise.problems import _cache
from noisewise.runs.array_files import _digest, packed, read_arrays, unpacked
from noisewise.runs.journal import Journal
from noisewise.runs.journal_files import journal_files
from tests.inference.fit_files import a_model
from tests.runs import hostile_directories as hostile
from tests.runs import test_hostile_files as files
from tests.runs.problems import arrays_of

pytestmark = pytest.mark.skipif(
    not sys.platform.startswith("linux"), reason="devices, and peaks of memory, are Linux's"
)
FAST, SLOW = 300, 10_000


def a_run(folder):
    """A finished run: its record and its posterior."""
    path, told = files.a_run(folder)

    def read():
        posterior = nw.load_posterior(path)
        return [told(), *(np.asarray(array).tobytes() for array in arrays_of(posterior).values())]

    return path, read


def a_resumed_run(folder):
    """The same, gone on with: what is damaged is done again, with the same result."""
    method = nw.inference.SMCABC(num_particles=30, num_rounds=2)

    def read():
        posterior = method.infer(files.KEY, a_model(), [1.0], run_dir=folder / "r", progress=False)
        return [np.asarray(array).tobytes() for array in arrays_of(posterior).values()]

    read()
    return folder / "r", read


def a_journal(folder):
    """The steps of a run, in the way in which a resumed one asks for them."""
    path, _ = files.a_run(folder)
    record, num = nw.runs.read_run(path), len(journal_files(path / "journal"))

    def read():
        journal = Journal(path / "journal", record.id)
        if journal.dropped or len(journal_files(path / "journal")) < num:
            raise errors.FileFormatError("dropped")
        return str(journal._rows)

    return path, read


def a_cache(folder):
    """Stored draws; what is damaged is computed anew."""
    draws = np.linspace(0.0, 1.0, 200).reshape(100, 2)
    path = folder / "c"

    def read():
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("NOISEWISE_CACHE_DIR", str(path))
            return _cache.cached_draws({"a": 1}, lambda: draws, (100, 2)).tobytes()

    read()
    return path, read


MAKERS = {
    **{
        f"posterior: {kind}": functools.partial(files.a_posterior, kind=kind)
        for kind in files.POSTERIORS
    },
    "posterior of version 1": functools.partial(files.an_old_posterior, kind="LearnedPosterior"),
    **{
        f"fit: {name}": functools.partial(files.a_fit, number=number)
        for number, name in enumerate(files.FITS)
    },
    "run": a_run,
    "resumed run": a_resumed_run,
    "journal": a_journal,
    "cache": a_cache,
}


def damage(folder, tree, outside, rng):
    """One hostile directory; what was done, for a message."""
    archives = [folder / name for name in tree if "/arrays." in f"/{name}"]
    manifests = [folder / name for name in tree if name.endswith("manifest.json")]
    texts = [folder / name for name in tree if name.endswith(".json")]
    kind = rng.integers(20)
    if archives and kind < 6:
        path = archives[rng.integers(len(archives))]
        kinds = hostile.ZIPS if path.suffix == ".npz" else hostile.TENSORS
        name = sorted(kinds)[rng.integers(len(kinds))]
        path.write_bytes(kinds[name](path, rng))
    elif manifests and kind < 7:
        name, path = "declare", manifests[rng.integers(len(manifests))]
        hostile.declare(path, rng)
        if rng.integers(2):
            (arrays,) = path.parent.glob("arrays.*")
            hostile.holes(2**27 * 8 + 300, keep=True)(arrays, outside, rng)
    elif texts and kind == 7 and rng.integers(10) == 0:  # they take half a second
        name, path = "crowded", texts[rng.integers(len(texts))]
        hostile.crowded(path, rng)
    else:
        name, path = (
            sorted(hostile.ANYWHERE)[rng.integers(len(hostile.ANYWHERE))],
            folder / _any(tree, rng),
        )
        hostile.ANYWHERE[name](path, outside, rng)
    return f"{name} at {path.relative_to(folder)}"


def _any(tree, rng):
    names = [*tree, ".lock"] if ".lock" not in tree else list(tree)
    return names[rng.integers(len(names))]


def check(maker, tmp_path, count):
    """So many hostile directories of one kind; how many were refused, the slowest call in s, and
    the most memory.
    """
    inside = tmp_path / "inside"
    inside.mkdir()
    folder, read = MAKERS[maker](inside)
    tree, rng, watch = (
        hostile.kept(folder),
        np.random.default_rng(sum(map(ord, maker))),
        hostile.Watch(),
    )
    expected = read()
    refused, told = 0, ""
    for number in range(count):
        outside = tmp_path / "outside" / str(number)
        outside.mkdir(parents=True)
        hostile.put_back(tree, folder)
        done = damage(folder, tree, outside, rng)
        before = hostile.look(outside)
        try:
            again = watch(read)
        except errors.NoisewiseError as error:
            refused, told = refused + 1, str(error)
        else:
            assert again == expected, done
        assert told.isprintable(), done
        assert hostile.look(outside) == before, done
        assert not os.path.lexists(hostile.MARKER), done
        assert watch.slowest < hostile.SECONDS, (done, watch.slowest)
        assert watch.largest < hostile.MEMORY, (done, watch.largest / 2**20)
    hostile.put_back(tree, folder)
    assert read() == expected
    print(
        f"\n{maker}: {count} directories, {refused} refused, {watch.longest:.2f} s,"
        f" {watch.largest / 2**20:.0f} MiB"
    )
    return refused


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path, monkeypatch):
    """Where code that is run would leave its marker."""
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")


NEEDS_TRAINING = [f"fit: {name}" for name in files.FITS[1:]]


@pytest.mark.parametrize(
    "maker",
    [
        pytest.param(name, marks=pytest.mark.slow) if name in NEEDS_TRAINING else name
        for name in MAKERS
    ],
)
def test_hostile_directories_give_typed_errors(maker, tmp_path):
    refused = check(maker, tmp_path, 20 if maker == "resumed run" else FAST // (len(MAKERS) - 4))
    assert refused > 2 or maker == "cache"


@pytest.mark.slow
@pytest.mark.parametrize("maker", MAKERS)
def test_ten_thousand_hostile_directories_give_typed_errors(maker, tmp_path):
    check(maker, tmp_path, 200 if maker == "resumed run" else -(-SLOW // (len(MAKERS) - 2)))


# Each kind by itself ------------------------------------------------------------------------------


@pytest.fixture
def a_posterior(tmp_path):
    return files.a_posterior(tmp_path, "Draws")


@pytest.fixture
def an_old_posterior(tmp_path):
    return files.an_old_posterior(tmp_path, "Draws")


@pytest.mark.parametrize(
    "name", [name for name in hostile.ANYWHERE if name not in ("code", "hard link")]
)
@pytest.mark.parametrize("file", [*files.FILES, "arrays.npz"])
def test_what_is_no_file_is_refused(tmp_path, name, file):
    made = files.an_old_posterior if file == "arrays.npz" else files.a_posterior
    folder, read = made(tmp_path, "Draws")
    (tmp_path / "outside").mkdir()
    hostile.ANYWHERE[name](folder / file, tmp_path / "outside", np.random.default_rng(0))
    watch = hostile.Watch()
    with pytest.raises(errors.NoisewiseError):
        watch(read)
    assert watch.slowest < hostile.SECONDS
    assert watch.largest < hostile.MEMORY


@pytest.mark.parametrize("name", hostile.TENSORS)
def test_what_is_no_plain_file_of_arrays_is_refused(a_posterior, name):
    folder, read = a_posterior
    path = folder / "arrays.safetensors"
    path.write_bytes(hostile.TENSORS[name](path, np.random.default_rng(0)))
    watch = hostile.Watch()
    with pytest.raises(errors.FileFormatError):
        watch(read)
    assert watch.slowest < hostile.SECONDS
    assert watch.largest < hostile.MEMORY
    assert not os.path.lexists(hostile.MARKER)


@pytest.mark.parametrize(
    "name",
    [name for name in hostile.ZIPS if name not in ("remarked", "lying_sizes", "lying_directory")],
)
def test_what_is_no_plain_list_of_arrays_is_refused(an_old_posterior, name):
    folder, read = an_old_posterior
    path = folder / "arrays.npz"
    path.write_bytes(hostile.ZIPS[name](path, np.random.default_rng(0)))
    watch = hostile.Watch()
    with pytest.raises(errors.FileFormatError):
        watch(read)
    assert watch.largest < hostile.MEMORY
    assert not os.path.lexists(hostile.MARKER)


def test_a_bomb_that_its_manifest_announces_is_refused(an_old_posterior):
    folder, read = an_old_posterior
    path = folder / "arrays.npz"
    path.write_bytes(hostile.bombed(path, None))
    hostile.announce(folder / "manifest.json", [2**27])
    watch = hostile.Watch()
    with pytest.raises(errors.FileFormatError):
        watch(read)
    assert watch.largest < 2**20 * 32


@pytest.mark.parametrize("first", [True, False])
def test_the_array_that_was_checked_is_the_one_that_is_used(an_old_posterior, first):
    """`theta` has another shape than `theta.npy`, which is the one whose header is looked at; the
    manifest has the sha256 of `theta`.
    """
    folder, read = an_old_posterior
    path, other = folder / "arrays.npz", np.arange(200.0).reshape(200, 1)
    content = hostile.members(path)["theta.npy"]
    shape = np.load(io.BytesIO(content)).shape
    pair = [("theta", hostile.npy(other)), ("theta.npy", content)]
    path.write_bytes(hostile.zipped(pair if first else pair[::-1]))
    hostile.announce(folder / "manifest.json", shape, hashlib.sha256(other.tobytes()).hexdigest())
    with pytest.raises(errors.FileFormatError):
        read()


@pytest.mark.parametrize(
    "name", [nw.runs.record.JOURNAL, nw.runs.record.POSTERIOR, ".lock", "run.json"]
)
@pytest.mark.parametrize("way", ["link outside", "link to nothing", "pipe"])
def test_a_run_that_is_gone_on_with_stays_in_its_directory(tmp_path, name, way):
    folder, read = a_resumed_run(tmp_path)
    outside = tmp_path / "outside"
    outside.mkdir()
    hostile.ANYWHERE[way](folder / name, outside, np.random.default_rng(0))
    before = hostile.look(outside)
    with pytest.raises(errors.NoisewiseError):
        hostile.Watch()(read)
    assert hostile.look(outside) == before


def test_headers_are_not_believed(tmp_path):
    """A file of holes, with a header, and a sha256, that fit it."""
    path = tmp_path / "a.safetensors"
    entry = {"dtype": "F64", "shape": [2**32], "data_offsets": [0, 2**35]}
    header = json.dumps({"__metadata__": {"content": "{}", "sha256": "0"}, "a": entry}).encode()
    path.write_bytes(len(header).to_bytes(8, "little") + header)
    hostile.holes(8 + len(header) + 2**35, keep=True)(path, None, None)
    watch = hostile.Watch()
    with pytest.raises(errors.FileFormatError, match="almost no space on disk"):
        watch(lambda: read_arrays(path))
    assert watch.largest < 2**20 * 32


def test_shapes_that_numpy_cannot_make_are_refused():
    content, arrays = {}, {"a": np.zeros((0, 3))}
    stored = packed(content, arrays)
    size = int.from_bytes(stored[:8], "little")
    table = json.loads(stored[8 : 8 + size])
    del table["__metadata__"]
    table["a"]["shape"] = [0] + [2**39] * 99
    metadata = {"content": "{}", "sha256": _digest("{}", table, b"")}
    header = json.dumps({"__metadata__": metadata, **table}).encode()
    with pytest.raises(errors.FileFormatError):
        unpacked(len(header).to_bytes(8, "little") + header, "it")


def test_shapes_and_depths_of_a_learned_posterior_are_not_believed(tmp_path):
    folder, read = files.a_posterior(tmp_path, "LearnedPosterior")
    manifest = folder / "manifest.json"
    whole = manifest.read_text()
    for old, new in (
        ('"_batch_shape": {"tuple": []}', '"_batch_shape": {"tuple": [9999999]}'),
        ('"num_hidden": 1', '"num_hidden": 4096'),
    ):
        value = json.loads(json.dumps(json.loads(whole)).replace(old, new))
        assert value != json.loads(whole)
        manifest.write_text(json.dumps(sealed(value)))
        watch = hostile.Watch()
        with pytest.raises(errors.FileFormatError):
            watch(read)
        assert watch.slowest < 0.5
        assert watch.largest < hostile.MEMORY


FIRST = ("lists", "pairs", "wide texts", "deep")
"""Crowds of containers, keys, texts and depths; the others are of the same kinds, or numbers."""


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=[pytest.mark.slow] * (name not in FIRST)) for name in hostile.CROWDS],
)
def test_a_text_becomes_no_crowd_of_objects(tmp_path, name):
    path = tmp_path / "a.json"
    path.write_bytes(hostile.crowd(name))
    watch = hostile.Watch()
    with contextlib.suppress(errors.FileFormatError):
        watch(lambda: len(read_json(path, "file")))
    print(f"{name}: {watch.slowest:.2f} s, {watch.largest / 2**20:.0f} MiB")
    assert watch.slowest < hostile.SECONDS
    assert watch.largest < hostile.MEMORY


@pytest.mark.parametrize("part", ["[],", '{"":0},', "1,", '"a",'])
def test_a_crowd_is_refused_before_it_is_made(part):
    text = f'{{"a": [{part * ((2**24 - 20) // len(part))}0]}}'
    watch = hostile.Watch()
    with pytest.raises(errors.FileFormatError, match="too many items"):
        watch(lambda: parse_json(text, "file"))
    assert watch.largest < 2**20 * 64


PLACES = {
    "diagnostics": lambda content, crowd: content["report"]["numbers"].update(x=crowd),
    "array of the prior": (
        lambda content, crowd: content["prior"]["mean"]["fields"].update(loc=_array(crowd))
    ),
    "tuple of the prior": (
        lambda content, crowd: content["prior"]["mean"]["fields"].update(loc={"tuple": crowd})
    ),
}


def _array(crowd):
    return {"array": crowd, "shape": [len(crowd)]}


@pytest.mark.slow
@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("name", hostile.CROWDS)
def test_a_sealed_manifest_becomes_no_crowd_of_objects(tmp_path, name, place):
    folder, read = files.a_posterior(tmp_path, "LearnedPosterior")
    read()
    manifest = json.loads((folder / "manifest.json").read_text())
    crowd = json.loads(hostile.crowd(name))["a"]
    PLACES[place](manifest["content"], crowd[: int(0.97 * len(crowd))])
    text = json.dumps(sealed(manifest), separators=(",", ":"), ensure_ascii=False)
    (folder / "manifest.json").write_text(text)
    del crowd, manifest, text
    watch = hostile.Watch()
    with contextlib.suppress(errors.FileFormatError):
        watch(read)
    assert watch.slowest < hostile.SECONDS
    assert watch.largest < hostile.MEMORY


def test_as_many_numbers_as_are_ever_written_are_read():
    text = json.dumps({"a": [1.5] * 1_000_000, "b": "x"}, indent=2)
    assert len(parse_json(text, "file")["a"]) == 1_000_000


def test_files_that_users_name_may_lie_behind_a_link(tmp_path):
    (tmp_path / "a.json").write_text("{}")
    (tmp_path / "b.json").symlink_to("a.json")
    assert read_json(tmp_path / "b.json", "file") == {}
    with pytest.raises(errors.InvalidInputError, match="symbolic link"):
        read_json(tmp_path / "b.json", "file", follow_links=False)


def test_a_file_that_grows_while_it_is_read_is_refused(tmp_path, monkeypatch):
    """Sizes are looked at once, and what is read has that size: planted, a reader that goes on to
    the end.
    """
    path = tmp_path / "a"
    path.write_bytes(b"abc")
    fstat = os.fstat

    def grown(descriptor):
        found = fstat(descriptor)
        with path.open("ab") as file:
            file.write(b"more")
        return found

    monkeypatch.setattr(os, "fstat", grown)
    with pytest.raises(errors.NoisewiseError):
        read_regular(path, limit=100)


def test_what_a_record_tells_commands_no_terminal(tmp_path):
    folder, _ = files.a_run(tmp_path)
    value = json.loads((folder / "run.json").read_text())
    value["identity"]["method"] = "a\x1b]0;b\x07\x9b2J\u202ec\x7f"
    value["versions"]["jax"] = "\x1b[8m"
    (folder / "run.json").write_text(json.dumps(sealed(value)))
    told = str(nw.runs.read_run(folder))
    assert told.replace("\n", "").isprintable()
    (folder / "posterior" / "manifest.json").unlink()
    with pytest.raises(errors.InvalidInputError) as caught:
        nw.load_posterior(folder)
    assert str(caught.value).isprintable()
    assert "a]0;b2Jc" in str(caught.value)


def test_what_a_posterior_tells_commands_no_terminal(tmp_path):
    folder, _ = files.a_posterior(tmp_path, "Draws")
    manifest = json.loads((folder / "manifest.json").read_text())
    stated = {"kind": "stated", "numbers": {"text": "\x1b[2J\u2066 all is well"}}
    manifest["content"]["report"]["findings"] = [stated]
    manifest["content"]["report"]["method"] = "a\x9b1mb"
    (folder / "manifest.json").write_text(json.dumps(sealed(manifest)))
    posterior = nw.load_posterior(folder)
    assert repr(posterior).isprintable()
    assert str(posterior.report).replace("\n", "").isprintable()
    manifest["content"]["names"] = ["mean\x1b[8m"]
    (folder / "manifest.json").write_text(json.dumps(sealed(manifest)))
    with pytest.raises(errors.FileFormatError):
        nw.load_posterior(folder)
