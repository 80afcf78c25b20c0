"""Run every benchmark, print its ratios, and keep them as JSON under benchmarks/results/."""

import json
import platform
from pathlib import Path

from benchmarks import inference, mechanisms, point_sets, sir

RESULTS = Path(__file__).parent / "results"


def main() -> None:
    RESULTS.mkdir(exist_ok=True)
    for module in (point_sets, mechanisms, sir, inference):
        name = module.__name__.rsplit(".", 1)[-1]
        rows = module.run()
        print(f"\n{(module.__doc__ or '').strip()}")
        for row in rows:
            print("  " + "  ".join(f"{key}: {value}" for key, value in row.items()))
        record = {"python": platform.python_version(), "machine": platform.machine(), "rows": rows}
        (RESULTS / f"{name}.json").write_text(json.dumps(record, indent=2) + "\n")


if __name__ == "__main__":
    main()
