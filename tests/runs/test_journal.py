"""Files of arrays, and the journal of a run."""

import jax.numpy as jnp
import numpy as np
import pytest

from noisewise import errors
from noisewise.runs.journal import Journal
from noisewise.runs.journal_files import Result


def test_arrays_of_every_kind_come_back(tmp_path):
    from noisewise.runs.array_files import read_arrays, write_arrays

    kinds = ["f8", "f4", "f2", "i8", "i4", "i2", "i1", "u8", "u4", "u2", "u1", "?"]
    arrays = {kind: np.arange(6).reshape(2, 3).astype(kind) for kind in kinds} | {
        "empty": np.zeros((0, 2)),
        "one": np.array(3.5),
    }
    arrays["special"] = np.array([np.nan, np.inf, -0.0, 5e-324])
    write_arrays(tmp_path / "a.safetensors", {"text": "é", "number": 0.1}, arrays)
    content, again = read_arrays(tmp_path / "a.safetensors")
    assert content == {"text": "é", "number": 0.1}
    for name, array in arrays.items():
        assert again[name].dtype == array.dtype
        assert again[name].shape == array.shape
        assert again[name].tobytes() == array.tobytes()
    with pytest.raises(errors.InvalidInputError, match="not stored"):
        write_arrays(tmp_path / "b.safetensors", {}, {"a": np.array(["text"])})
    with pytest.raises(errors.InvalidInputError, match="exists"):
        write_arrays(tmp_path / "a.safetensors", {}, {})


def test_a_state_of_jax_arrays_and_a_journal_of_another_run(tmp_path):
    journal = Journal(tmp_path, "one")
    journal.begin()
    journal.recall_move("sweeps")
    journal.keep("sweeps", Result({"a": np.ones(2)}, "finished"), state=[jnp.arange(3)])
    journal.flush()
    again = Journal(tmp_path, "one")
    again.begin()
    result, state = again.recall_move("sweeps")
    np.testing.assert_array_equal(result.arrays["a"], 1.0)
    np.testing.assert_array_equal(state[0], [0, 1, 2])
    foreign = Journal(tmp_path, "other")
    foreign.begin()
    assert foreign.recall_move("sweeps") is None
    assert foreign.dropped == ["000000.safetensors", "state.safetensors"]
