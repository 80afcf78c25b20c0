"""What a stranger may put in place of the files of a directory: links, pipes, devices, folders,
holes of a terabyte, bombs.
"""

import hashlib
import io
import json
import os
import pickle
import resource
import shutil
import signal
import socket
import stat
import struct
import time
import warnings
import zipfile
import zlib
from pathlib import Path

import numpy as np

from noisewise._core.json_files import sealed
from noisewise.runs.array_files import _digest

MARKER = "code was run"
CODE = f"open({MARKER!r}, 'w').close()\n"
PLANTED = (
    "model.py",
    "noisewise.py",
    "sitecustomize.py",
    "__init__.py",
    "numpy.py",
    "journal/jax.py",
    "posterior/arrays.py",
)
SECONDS, MEMORY = 2.0, 256 * 2**20
"""Of one call, and what it may take above what was there before."""
_CEILING = 2 * 2**30
"""Address space of one call: what would fill the machine fails here."""
_HANGS = 10
"""Seconds after which a call is given up."""


class Exploit:
    """Unpickling one leaves the marker behind."""

    def __reduce__(self):
        return open, (MARKER, "w")


# A directory, kept in memory so that it can be put back -------------------------------------------


def kept(folder):
    """Files by their path, folders as None."""
    paths = sorted(folder.rglob("*"))
    return {
        str(path.relative_to(folder)): None if path.is_dir() else path.read_bytes()
        for path in paths
    }


def put_back(tree, folder):
    if folder.is_symlink() or not folder.is_dir():
        folder.unlink(missing_ok=True)
    else:
        shutil.rmtree(folder)
    folder.mkdir(parents=True)
    for name, content in tree.items():
        if content is None:
            (folder / name).mkdir()
        else:
            (folder / name).write_bytes(content)


def look(folder):
    """All there is, without following a link."""
    found = {}
    for path in sorted(folder.rglob("*")):
        about = path.lstat()
        content = (
            path.read_bytes() if stat.S_ISREG(about.st_mode) and about.st_size < 2**24 else b""
        )
        found[str(path.relative_to(folder))] = (
            about.st_mode,
            about.st_size,
            hashlib.sha256(content).hexdigest(),
        )
    return found


# In place of any file or folder -------------------------------------------------------------------


def clear(path):
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def link_to(target):
    def damage(path, outside, rng):
        clear(path)
        path.symlink_to(target)

    return damage


def link_outside(path, outside, rng):
    """A link to what was there, moved out of the directory."""
    moved = outside / f"moved-{path.name}"
    if path.is_dir():
        shutil.copytree(path, moved)
        (moved / ".a.0123.part").write_text("kept")
    else:
        moved.write_bytes(path.read_bytes() if path.exists() else b"")
    clear(path)
    path.symlink_to(moved)


def link_to_itself(path, outside, rng):
    clear(path)
    path.symlink_to(path.name)


def link_to_nothing(path, outside, rng):
    """What is written through it appears elsewhere."""
    clear(path)
    path.symlink_to(outside / "new")


def hard_link(path, outside, rng):
    if path.is_file():
        (outside / "same").write_bytes(path.read_bytes())
        clear(path)
        os.link(outside / "same", path)


def pipe(path, outside, rng):
    clear(path)
    os.mkfifo(path)


def door(path, outside, rng):
    """A socket; its name may have a hundred bytes, so that it is made where it is short."""
    clear(path)
    here = Path.cwd()
    os.chdir(path.parent)
    try:
        with socket.socket(socket.AF_UNIX) as end:
            end.bind(path.name)
    finally:
        os.chdir(here)


def device(kind, major, minor):
    def damage(path, outside, rng):
        clear(path)
        try:
            os.mknod(path, 0o600 | kind, os.makedev(major, minor))
        except PermissionError:
            path.symlink_to("/dev/zero")

    return damage


def folder_in_place(path, outside, rng):
    was_folder = path.is_dir()
    clear(path)
    path.write_bytes(b"x") if was_folder else path.mkdir()


def holes(size, *, keep):
    """A file that seems to have `size` bytes, after its own content or in place of it."""

    def damage(path, outside, rng):
        content = path.read_bytes() if keep and path.is_file() else b""
        clear(path)
        with path.open("wb") as file:
            file.write(content)
            file.truncate(size)

    return damage


def gone(path, outside, rng):
    clear(path)


def planted(path, outside, rng):
    """Code beside the files, under names that a program may import."""
    root = path.parent
    for name in PLANTED:
        if (root / name).parent.is_dir():
            (root / name).write_text(CODE)


ANYWHERE = {
    "link to /dev/zero": link_to("/dev/zero"),
    "link to /dev/random": link_to("/dev/random"),
    "link to /dev/stdin": link_to("/dev/stdin"),
    "link to the memory of the process": link_to("/proc/self/mem"),
    "link to /etc": link_to("/etc"),
    "link outside": link_outside,
    "link to itself": link_to_itself,
    "link to nothing": link_to_nothing,
    "hard link": hard_link,
    "pipe": pipe,
    "socket": door,
    "character device": device(stat.S_IFCHR, 1, 5),
    "random device": device(stat.S_IFCHR, 1, 8),
    "block device": device(stat.S_IFBLK, 7, 0),
    "folder for file": folder_in_place,
    "a terabyte": holes(2**40, keep=False),
    "a terabyte after it": holes(2**40, keep=True),
    "ten gigabytes": holes(10 * 2**30, keep=False),
    "fifteen megabytes": holes(15 * 2**20, keep=True),
    "empty": holes(0, keep=False),
    "gone": gone,
    "code": planted,
}


# In place of arrays.npz, of version 1 -------------------------------------------------------------


def members(path):
    with zipfile.ZipFile(path) as stored:
        return {info.filename: stored.read(info) for info in stored.infolist()}


def zipped(entries, kind=zipfile.ZIP_STORED, comment=b""):
    buffer = io.BytesIO()
    with warnings.catch_warnings(action="ignore"), zipfile.ZipFile(buffer, "w", kind) as file:
        for name, content in entries:
            info = zipfile.ZipInfo(name)
            info.compress_type = kind
            with file.open(info, "w", force_zip64=True) as member:
                member.write(content)
        file.comment = comment
    return buffer.getvalue()


def npy(array):
    buffer = io.BytesIO()
    np.save(buffer, array, allow_pickle=True)
    return buffer.getvalue()


def other(content, *, shift=1.0):
    """An array of the same shape and type, with other numbers."""
    array = np.load(io.BytesIO(content))
    return npy((array + np.asarray(shift).astype(array.dtype)).astype(array.dtype))


NPY_HEADER = b"{'descr': '<f8', 'fortran_order': False, 'shape': (%d,), }          \n"


def bomb(start, size):
    """The compressed bytes of `start` and so many zeros, and their crc."""
    pack, crc, block = zlib.compressobj(9, zlib.DEFLATED, -15), zlib.crc32(start), bytes(2**20)
    start = pack.compress(start) + pack.flush(zlib.Z_FULL_FLUSH)
    packed = pack.compress(block) + pack.flush(zlib.Z_FULL_FLUSH)
    for _ in range(size // len(block)):
        crc = zlib.crc32(block, crc)
    return start + packed * (size // len(block)) + pack.flush(), crc


_BOMB_SIZE = 2**30
_BOMB = []


def bombed(path, rng):
    """A member that unpacks to a GiB of an array, in a MiB, under the name of an array of the file."""
    header = NPY_HEADER % (_BOMB_SIZE // 8)
    start = b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header
    if not _BOMB:
        _BOMB.append(bomb(start, _BOMB_SIZE))
    content, crc = _BOMB[0]
    name = next(iter(members(path))).encode()
    sizes = struct.pack("<III", crc, len(content), len(start) + _BOMB_SIZE)
    local = (
        struct.pack("<IHHHHH", 0x04034B50, 20, 0, 8, 0, 33)
        + sizes
        + struct.pack("<HH", len(name), 0)
        + name
    )
    entry = struct.pack("<IHHHHHH", 0x02014B50, 20, 20, 0, 8, 0, 33) + sizes
    entry += struct.pack("<HHHHHII", len(name), 0, 0, 0, 0, 0, 0) + name
    end = len(local) + len(content)
    return (
        local
        + content
        + entry
        + struct.pack("<IHHHHIIH", 0x06054B50, 0, 0, 1, 1, len(entry), end, 0)
    )


def announce(manifest, shape, sha256=""):
    """A manifest that fits its sha256 and tells of one array of this shape."""
    value = json.loads(manifest.read_text())
    value["arrays"] = {"theta": {"shape": list(shape), "dtype": "float64", "sha256": sha256}}
    manifest.write_text(json.dumps(sealed(value)))


def shadowed(path, rng):
    """`theta` beside `theta.npy`: np.load takes the first, a check of names the second."""
    found = members(path)
    return zipped(
        [
            *found.items(),
            *((name.removesuffix(".npy"), other(content)) for name, content in found.items()),
        ]
    )


def shadowing_first(path, rng):
    found = members(path)
    return zipped(
        [
            *((name.removesuffix(".npy"), other(content)) for name, content in found.items()),
            *found.items(),
        ]
    )


def duplicated(path, rng):
    found = members(path)
    return zipped([*found.items(), *((name, other(content)) for name, content in found.items())])


def deflated(path, rng):
    return zipped(members(path).items(), kind=zipfile.ZIP_DEFLATED)


def xz(path, rng):
    return zipped(members(path).items(), kind=zipfile.ZIP_LZMA)


def extra(path, rng):
    return zipped([*members(path).items(), ("model.py", CODE.encode())])


def upwards(path, rng):
    return zipped([(f"../{name}", content) for name, content in members(path).items()])


def remarked(path, rng):
    return zipped(members(path).items(), comment=b"x" * 60_000)


def pickled(path, rng):
    objects = np.array([Exploit()], dtype=object)
    return zipped([(name, npy(objects)) for name in members(path)])


def huge_headers(path, rng):
    """Each header promises 2^36 numbers; the file stays small."""
    header = NPY_HEADER % 2**36
    content = b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header
    return zipped([(name, content) for name in members(path)])


def nested_headers(path, rng):
    header = b"(" * 5000 + b")" * 5000
    content = b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header
    return zipped([(name, content) for name in members(path)])


def many_members(path, rng):
    """As many small members as there is room for, and more."""
    return zipped([*members(path).items(), *((f"{i}.npy", b"") for i in range(3000))])


def lying_directory(path, rng):
    """The list of members says that it is longer, starts elsewhere, or holds other sizes."""
    content = bytearray(path.read_bytes())
    at = len(content) - int(rng.integers(4, 22))
    content[at : at + 4] = int(rng.integers(2**32)).to_bytes(4, "little")
    return bytes(content)


def lying_sizes(path, rng):
    """One number of the list of members, or of a header, is another."""
    content = bytearray(path.read_bytes())
    signature = (b"PK\1\2", b"PK\3\4")[rng.integers(2)]
    at = content.find(signature) + int(rng.integers(4, 46))
    content[at : at + 4] = int(rng.integers(2**32)).to_bytes(4, "little")
    return bytes(content)


ZIPS = {
    function.__name__: function
    for function in (
        bombed,
        shadowed,
        shadowing_first,
        duplicated,
        deflated,
        xz,
        extra,
        upwards,
        remarked,
        pickled,
        huge_headers,
        nested_headers,
        many_members,
        lying_directory,
        lying_sizes,
    )
}


def declare(manifest, rng):
    """A manifest that fits its sha256 and promises arrays of any size, or another file of them."""
    value = json.loads(manifest.read_text())
    if isinstance(value["arrays"], str):
        value["arrays"] = hashlib.sha256(rng.bytes(8)).hexdigest()
        manifest.write_text(json.dumps(sealed(value)))
        return
    for entry in value["arrays"].values():
        size = int(rng.integers(1, 2**40))
        entry["shape"] = [[size], [2**30, 2**9], [2**27], [0, 2**39, 2**39, 2**39], [1] * 70][
            rng.integers(5)
        ]
        if rng.integers(2):
            entry["sha256"] = hashlib.sha256(bytes(2**20)).hexdigest()
    manifest.write_text(json.dumps(sealed(value)))


# In place of arrays.safetensors -------------------------------------------------------------------


def parts(path):
    """The header and the data of a file of arrays."""
    content = path.read_bytes()
    end = 8 + int.from_bytes(content[:8], "little")
    return json.loads(content[8:end]), content[end:]


def joined(header, data, length=None):
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return (len(text) if length is None else length).to_bytes(8, "little") + text + data


def resealed(path, change):
    """The file with its header and data changed, and a sha256 that fits."""
    header, data = parts(path)
    header, data = change(header, data) or (header, data)
    metadata = header.pop("__metadata__")
    metadata["sha256"] = _digest(metadata["content"], header, data)
    return joined({"__metadata__": metadata, **header}, data)


def first(header):
    return header[next(name for name in header if name != "__metadata__")]


def long_header(path, rng):
    """A length of any size before the header."""
    header, data = parts(path)
    return joined(header, data, length=int(rng.integers(2**63)))


def whole_as_header(path, rng):
    header, data = parts(path)
    return joined(header, data, length=len(path.read_bytes()) - 8)


def huge_shape(path, rng):
    """An array of 2^36 numbers in a small file."""

    def change(header, data):
        first(header)["shape"] = [2**36]

    return resealed(path, change)


def huge_array(path, rng):
    """The same, with offsets that agree."""

    def change(header, data):
        entry = first(header)
        entry |= {"dtype": "F64", "shape": [2**36], "data_offsets": [0, 2**39]}

    return resealed(path, change)


def many_axes(path, rng):
    """Sizes whose product would have millions of digits."""

    def change(header, data):
        first(header)["shape"] = [2**39] * 300_000

    return resealed(path, change)


def empty_but_wide(path, rng):
    """No entries, of a shape that NumPy cannot make."""

    def change(header, data):
        header["zero"] = {
            "dtype": "F64",
            "shape": [0, 2**39, 2**39, 2**39],
            "data_offsets": [len(data)] * 2,
        }

    return resealed(path, change)


def negative_shape(path, rng):
    def change(header, data):
        entry = first(header)
        entry["shape"] = [-size for size in entry["shape"]]

    return resealed(path, change)


def overlapping(path, rng):
    """A second name for the bytes of the first array."""

    def change(header, data):
        header["again"] = dict(first(header))

    return resealed(path, change)


def extra_array(path, rng):
    def change(header, data):
        end = len(data)
        entry = {"dtype": "U8", "shape": [3], "data_offsets": [end, end + 3]}
        return {**header, "extra": entry}, data + b"abc"

    return resealed(path, change)


def other_numbers(path, rng):
    """Other numbers of the same shape and type, and a sha256 that fits."""
    return resealed(path, lambda header, data: (header, data[:-8] + bytes(8)))


def objects(path, rng):
    """A type that NumPy would unpickle."""

    def change(header, data):
        first(header)["dtype"] = ("O", "object", "|O8", ["<f8"])[rng.integers(4)]

    return resealed(path, change)


def pickled_file(path, rng):
    return pickle.dumps(Exploit())


def pickled_data(path, rng):
    header, data = parts(path)
    return joined(header, pickle.dumps(Exploit()).ljust(len(data), b"."))


def zip_file(path, rng):
    """The arrays of version 1 under the name of those of version 2."""
    return zipped([("theta.npy", npy(np.array([Exploit()], dtype=object)))])


def nested_header(path, rng):
    return joined(b'{"a":' + b"[" * 200_000 + b"]" * 200_000 + b"}", parts(path)[1])


def same_name_twice(path, rng):
    header, data = parts(path)
    name = next(name for name in header if name != "__metadata__")
    twice = json.dumps(header)[:-1] + f", {json.dumps(name)}: {json.dumps(header[name])}}}"
    return joined(twice.encode(), data)


def crowded_header(path, rng):
    """As many descriptions of arrays as there is room for."""
    entry = json.dumps({"dtype": "F64", "shape": [0], "data_offsets": [0, 0]})
    text = ", ".join(f'"{i}": {entry}' for i in range(190_000))
    return joined(f"{{{text}}}".encode(), b"")


TENSORS = {
    function.__name__: function
    for function in (
        long_header,
        whole_as_header,
        huge_shape,
        huge_array,
        many_axes,
        empty_but_wide,
        negative_shape,
        overlapping,
        extra_array,
        other_numbers,
        objects,
        pickled_file,
        pickled_data,
        zip_file,
        nested_header,
        same_name_twice,
        crowded_header,
    )
}


# Text files of 16 MiB that become as many objects as they can -------------------------------------

_MIB16, _ITEMS, _BRACKETS = 16 * 2**20 - 100, 2_399_900, 399_900
"""Just below what is read: bytes, commas or quotes, and brackets."""
_PARTS = {
    "lists": "[],",
    "objects": "{},",
    "pairs": '{"":0},',
    "objects in objects": '{"a":{}},',
    "whole numbers": "999,",
    "small whole numbers": "1,",
    "numbers": "0.5,",
    "texts": '"é",',
    "wide texts": '"\U0001f600",',
    "numbers and texts": '"é",0.5,',
    "deep": "[[[[[[[[]]]]]]]],",
}


def crowd(name):
    """As many objects as there is room for."""
    part = _PARTS[name]
    items, brackets = max(part.count('"'), part.count(",")), part.count("[") + part.count("{")
    num = min(
        _MIB16 // len(part.encode()), _ITEMS // items, _BRACKETS // brackets if brackets else _ITEMS
    )
    return f'{{"a": [{part * num}0]}}'.encode()


CROWDS = tuple(_PARTS)


def crowded(path, rng):
    path.write_bytes(crowd(list(CROWDS)[rng.integers(len(CROWDS))]))


# Watching a call ----------------------------------------------------------------------------------


def _status(field):
    with open("/proc/self/status") as file:
        return next(int(line.split()[1]) for line in file if line.startswith(field)) * 1024


class Watch:
    """Runs calls; keeps the most processor time, wall time and memory that one of them took.

    Processor time is what a busy machine does not change; who waits for a pipe takes none, and is
    given up.
    """

    def __init__(self):
        self.slowest = self.longest = self.largest = 0.0

    def __call__(self, read):
        """What `read()` returns or raises; a call that hangs is given up."""
        soft, hard = resource.getrlimit(resource.RLIMIT_AS)
        with open("/proc/self/clear_refs", "w") as file:
            file.write("5")  # the peak starts anew
        before = _status("VmRSS")
        resource.setrlimit(resource.RLIMIT_AS, (_status("VmSize") + _CEILING, hard))
        signal.signal(signal.SIGALRM, _hangs)
        signal.alarm(_HANGS)
        begun, used = time.perf_counter(), time.process_time()
        try:
            return read()
        finally:
            signal.alarm(0)
            resource.setrlimit(resource.RLIMIT_AS, (soft, hard))
            self.slowest = max(self.slowest, time.process_time() - used)
            self.longest = max(self.longest, time.perf_counter() - begun)
            self.largest = max(self.largest, _status("VmHWM") - before)


def _hangs(*_):
    raise AssertionError(f"a call took more than {_HANGS} s")
