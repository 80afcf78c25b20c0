"""The README's code runs, in order, as a reader would paste it."""

import re
from pathlib import Path

README = Path(__file__).parent.parent / "README.md"


def test_code_blocks_run(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"```python\n(.*?)```", README.read_text(), flags=re.DOTALL)
    assert len(blocks) == 2
    namespace: dict[str, object] = {}
    for block in blocks:
        exec(compile(block, "README.md", "exec"), namespace)
    printed = capsys.readouterr().out
    assert "posterior mean" in printed
    assert "PureDP" in printed
    assert (tmp_path / "release.json").exists()
