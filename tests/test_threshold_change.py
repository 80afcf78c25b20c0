"""The example of a threshold that changes halfway: a fall that is not there, and none."""

import runpy
from pathlib import Path

EXAMPLE = Path(__file__).parent.parent / "examples" / "threshold_change.py"


def test_dropping_absent_days_shows_a_fall_that_is_not_there():
    example = runpy.run_path(str(EXAMPLE))
    release = example["published"]()
    dropped, sd_dropped = example["jump"](release, drop_absent=True)
    counted, sd_counted = example["jump"](release, drop_absent=False)
    assert dropped < -5 * sd_dropped
    assert dropped < -0.3
    assert abs(counted) < 3 * sd_counted
