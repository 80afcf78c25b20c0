"""Archives as version 1 wrote them, for its reader."""

import hashlib
import json

import numpy as np

from noisewise._core.json_files import sealed
from noisewise.runs.array_files import read_arrays


def to_version_1(folder):
    """Rewrite the archive in a folder as one of version 1: arrays.npz, and what each array is."""
    manifest, path = folder / "manifest.json", folder / "arrays.safetensors"
    _, arrays = read_arrays(path)
    np.savez(folder / "arrays.npz", **arrays)
    value = json.loads(manifest.read_text())
    described = {
        name: {
            "shape": list(array.shape),
            "dtype": str(array.dtype),
            "sha256": hashlib.sha256(array.tobytes()).hexdigest(),
        }
        for name, array in arrays.items()
    }
    manifest.write_text(json.dumps(sealed({**value, "schema_version": 1, "arrays": described})))
    path.unlink()
