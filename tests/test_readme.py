"""The README's code blocks run as a reader would paste them, each in a folder of its own."""

import os
import re
import subprocess
import sys
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
def test_code_block_runs(number, tmp_path):
    """In a process of its own, and compiled as a reader's would be: the suite itself asks for
    programs that are quick to make.
    """
    env = {name: value for name, value in os.environ.items() if name != "XLA_FLAGS"}
    env |= {"NOISEWISE_CACHE_DIR": str(tmp_path), "PYTHONPATH": str(README.parent)}
    script = tmp_path / "block.py"
    script.write_text(BLOCKS[number])
    done = subprocess.run(
        [sys.executable, script],
        cwd=tmp_path,
        env=env,
        capture_output=True,
        text=True,
        timeout=900,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    for expected in PRINTED[number]:
        assert expected in done.stdout


def test_every_block_is_covered():
    assert len(BLOCKS) == len(PRINTED)
