"""The README's code blocks run as a reader would paste them, each in a folder of its own."""

import re
from pathlib import Path

import pytest

README = Path(__file__).parent.parent / "README.md"
BLOCKS = re.findall(r"```python\n(.*?)```", README.read_text(), flags=re.DOTALL)
PRINTED = [
    ("hdi low", "effective size", "passed"),
    ("p1_1[0]", "R-hat"),
    ("log_beta", "certified. The corrected draws are worth", "hdi low"),
    ("beta[1]", "privacy"),
    ("PureDP(epsilon=1.5)",),
    ("p1_1[0]",),
]
SLOW = {1, 2, 3, 5}
NUMBERS = [pytest.param(i, marks=pytest.mark.slow) if i in SLOW else i for i in range(len(PRINTED))]


@pytest.mark.parametrize("number", NUMBERS)
def test_code_block_runs(number, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("NOISEWISE_CACHE_DIR", str(tmp_path))
    exec(compile(BLOCKS[number], "README.md", "exec"), {})
    printed = capsys.readouterr().out
    for expected in PRINTED[number]:
        assert expected in printed


def test_every_block_is_covered():
    assert len(BLOCKS) == len(PRINTED)
