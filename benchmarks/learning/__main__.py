"""Learnt estimators, ours and sbi's, on problems with exact posteriors, one line of JSON per run.

    python -m benchmarks.learning --problems tuned --methods sple,cle --seeds 0,1,2 --out runs.jsonl
    python -m benchmarks.learning --problems moons-a --methods sple --set num_rounds=2 \
        --set estimator=masked_autoregressive_flow --set training.batch_size=200 --out runs.jsonl
    .cache/rivals/bin/python -m benchmarks.learning --problems held-out --methods sbi-nle --out ...
    python -m benchmarks.learning --table runs.jsonl
    python -m benchmarks.learning --problems held-out --picture runs.jsonl

Runs that the file has are left out, so that what was stopped goes on.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from benchmarks.cells import read
from benchmarks.learning import runner
from benchmarks.learning.methods import setting


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--problems", default="tuned", help="names, or tuned, held-out, all")
    parser.add_argument("--methods", default="sppe,sple,cle")
    parser.add_argument("--seeds", default="0")
    parser.add_argument("--simulations", type=int, default=10_000)
    parser.add_argument("--set", action="append", default=[], type=setting, metavar="NAME=VALUE")
    parser.add_argument("--out", type=Path, default=Path("runs.jsonl"))
    parser.add_argument("--cold", action="store_true", help="without programs compiled before")
    parser.add_argument("--core", type=int, help="by default one by the process id")
    parser.add_argument("--references", action="store_true", help="only make the exact draws")
    parser.add_argument("--table", type=Path, help="show the runs of a file")
    parser.add_argument("--picture", type=Path, help="draw the runs of a file beside it")
    parser.add_argument("--run", type=json.loads, help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.table:
        print(runner.table(read(options.table)))
    elif options.picture:
        _picture(options.picture, options.problems)
    elif options.run:
        runner.bind(options.core)
        record = json.dumps(runner.one(options.run))
        print(f"\n{record}", flush=True)  # a rival may have printed text without an end of line
    else:
        _many(options)


def _picture(path: Path, problems: str) -> None:
    """Draw the runs of a file, and print their table."""
    from benchmarks.learning.catalogue import named
    from benchmarks.learning.picture import draw, markdown

    names = [name for given in problems.split(",") for name in named(given)]
    draw(read(path), names, path.with_suffix(".png"))
    print(markdown(read(path), names))


def _many(options: argparse.Namespace) -> None:
    from benchmarks.learning.catalogue import named, problem

    names = [name for given in options.problems.split(",") for name in named(given)]
    if options.references:
        for name in names:
            print(name, problem(name).reference().shape, flush=True)
        return
    wanted = runner.runs(
        names,
        options.methods.split(","),
        [int(seed) for seed in options.seeds.split(",")],
        options.simulations,
        dict(options.set),
    )
    runner.run_all(wanted, options.out, cold=options.cold, core=options.core)
    print(runner.table(read(options.out)))


if __name__ == "__main__":
    main()
