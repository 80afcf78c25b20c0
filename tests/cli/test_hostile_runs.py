"""report, resume and compare on run directories of strangers: an answer or one line, no code,
nothing outside, no escape sequences.
"""

import contextlib
import functools
import json
import os
import shutil
import sys
from pathlib import Path

import numpy as np
import pytest

from noisewise._core.json_files import sealed
from noisewise.cli import show
from tests.hostile import damaged
from tests.runs import hostile_directories as hostile
from tests.runs.test_hostile_directories import damage

pytestmark = pytest.mark.skipif(
    not sys.platform.startswith("linux"), reason="devices, and peaks of memory, are Linux's"
)
ABC = (
    "--method",
    "rejection-abc",
    "--set",
    "num_draws=300",
    "--set",
    "tolerance=1",
    "--certify",
    2000,
)
COMMANDS = {
    "report": ("report", "theirs/a"),
    "resume": ("resume", "theirs/a"),
    "compare": ("compare", "theirs/a", "mine"),
}
TEXT = "a\x1b]0;b\x07\x1b[2J\x9b1m\u202ec\u2066d\x7f\r"


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A finished run with a certificate, kept for all tests."""
    from typer.testing import CliRunner

    from noisewise.cli.app import app

    folder = tmp_path_factory.mktemp("made")
    with contextlib.chdir(folder):
        result = CliRunner().invoke(app, ["infer", "gaussian-mean", *map(str, ABC), "--out", "a"])
        assert result.exit_code in (0, 3), result.stderr
    return hostile.kept(folder / "a")


@pytest.fixture
def theirs(folder, made):
    for place in ("theirs/a", "mine"):
        Path(place).mkdir(parents=True)
        hostile.put_back(made, Path(place))
    return Path("theirs/a")


def check(run, theirs, made, command, count):
    rng, watch = np.random.default_rng(len(command)), hostile.Watch()
    invoke = functools.partial(run, *COMMANDS[command])
    assert invoke().exit_code in (0, 3)
    codes = set()
    for number in range(count):
        outside = Path(f"outside/{number}").resolve()
        outside.mkdir(parents=True)
        hostile.put_back(made, theirs)
        if number % 4:
            done = damage(theirs, made, outside, rng)
        else:
            path = theirs / ("command.json", "certificate.json")[number // 4 % 2]
            done, content = (
                f"bytes of {path}",
                next(iter(damaged(path.read_text(), rng, 2 - number // 8 % 2))),
            )
            path.write_bytes(content)
        before = hostile.look(outside)
        result = watch(invoke)
        assert result.exit_code in (0, 1, 3), (done, result.stderr)
        codes.add(result.exit_code)
        assert result.exit_code != 1 or len(result.stderr.strip().splitlines()) <= 2, (
            done,
            result.stderr,
        )
        assert hostile.look(outside) == before, done
        assert not os.path.lexists(hostile.MARKER), done
        assert watch.largest < hostile.MEMORY, (done, watch.largest / 2**20)
    assert 1 in codes
    print(
        f"\n{command}: {count} directories, {watch.longest:.2f} s, {watch.largest / 2**20:.0f} MiB"
    )


@pytest.mark.parametrize("command", COMMANDS)
def test_commands_on_hostile_directories_end_in_one_line(run, theirs, made, command):
    check(run, theirs, made, command, 3 if command == "compare" else 6)


@pytest.mark.slow
@pytest.mark.parametrize("command", COMMANDS)
def test_commands_on_many_hostile_directories_end_in_one_line(run, theirs, made, command):
    check(run, theirs, made, command, 40 if command == "compare" else 300)


@pytest.mark.parametrize(
    "part",
    ["journal", "posterior", "inputs", "corrected", "command.json", "certificate.json", ".lock"],
)
@pytest.mark.parametrize("command", COMMANDS)
def test_commands_stay_in_the_directory(run, theirs, command, part):
    """What was moved out, with a link in its place, is neither read nor written."""
    outside = Path("outside").resolve()
    outside.mkdir()
    if (theirs / part).exists():
        hostile.ANYWHERE["link outside"](theirs / part, outside, None)
    else:
        hostile.ANYWHERE["link to nothing"](theirs / part, outside, None)
    before = hostile.look(outside)
    result = run(*COMMANDS[command])
    if command != "compare" or part in ("posterior", "corrected", "certificate.json"):
        assert result.exit_code == 1
        assert "symbolic link" in result.stderr
    assert hostile.look(outside) == before


def test_texts_of_strangers_command_no_terminal(run, theirs):
    """Names, messages, versions, settings and slugs of every file that is shown."""
    manifest = theirs / "corrected" / "manifest.json"
    for path in (manifest, theirs / "posterior" / "manifest.json"):
        value = json.loads(path.read_text())
        report = value["content"]["report"]
        stated = {"kind": "stated", "numbers": {"text": TEXT}}
        report |= {"method": TEXT, "stop": stated, "findings": [stated]}
        report["numbers"]["route"] = TEXT
        path.write_text(json.dumps(sealed(value)))
    certificate = json.loads((theirs / "certificate.json").read_text())
    (theirs / "certificate.json").write_text(json.dumps({**certificate, "proposal": TEXT}))
    for words in (
        *COMMANDS.values(),
        ("compare", "theirs/a", "mine", "--json"),
        ("resume", "theirs/a", "--json"),
    ):
        result = run(*words)
        assert result.exit_code in (0, 3), result.stderr
        assert_harmless(result.stdout + result.stderr)


@pytest.mark.parametrize(
    "place", ["method", "problem", "file", "settings", "key", "version", "copy"]
)
def test_mistakes_in_files_of_strangers_command_no_terminal(run, theirs, place):
    path = theirs / "command.json"
    value = json.loads(path.read_text())
    if place in ("method", "problem"):
        value[place] = TEXT
    elif place == "file":
        value |= {
            "problem": None,
            "file": {"path": f"../../{TEXT}.py", "name": "model", "sha256": "0"},
        }
    elif place == "settings":
        value["settings"] = {TEXT: 1}
    elif place == "key":
        value[TEXT] = 1
    elif place == "version":
        value["schema_version"] = TEXT
    else:
        value["releases"] = [{"copy": f"inputs/1-{TEXT}", "sha256": "0"}]
    path.write_text(json.dumps(value))
    for words in (
        ("resume", "theirs/a"),
        ("report", "theirs/a"),
        ("resume", "theirs/a", "--debug"),
    ):
        result = run(*words)
        assert_harmless(result.stdout + result.stderr)
        assert result.stderr or words[0] == "report"  # which reads no method and no settings


def assert_harmless(text):
    assert text.replace("\n", "").replace("\t", "").isprintable(), ascii(text)


def test_tables_and_paragraphs_command_no_terminal(capsys):
    show.say(TEXT)
    show.table([TEXT, "b"], [[TEXT, "1"]], title=TEXT)
    show.console().print(TEXT, soft_wrap=True)
    show.print_json({TEXT: TEXT})
    shown = capsys.readouterr().out
    assert_harmless(shown)
    assert "a]0;b[2J1mcd" in shown


def test_a_workers_count_of_a_stranger_starts_no_thousands(run, theirs):
    path = theirs / "command.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "workers": 10**6}))
    assert run("resume", "theirs/a").exit_code == 1


def test_other_links_in_a_run_directory_are_the_users_own(run, theirs):
    (theirs / "notes.txt").symlink_to("/etc/hostname")
    assert run("resume", "theirs/a").exit_code in (0, 3)
    shutil.move("theirs/a", "elsewhere")
    Path("theirs/a").symlink_to(Path("elsewhere").resolve())
    assert run("resume", "theirs/a").exit_code in (0, 3)
