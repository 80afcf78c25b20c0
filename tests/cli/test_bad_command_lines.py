"""Whatever is typed wrongly ends with exit code 1 and one line that says what to do, and leaves
nothing behind.
"""

import re
import shlex
from pathlib import Path

import pytest

from tests.cli.conftest import MODEL

PRIOS = MODEL[: MODEL.index("prios")].count("\n") + 1
RELEASE = "release --data people.csv --out new.json"
STAYS = "import table stays.csv --value count --label district --out new.json"
MEAN = f"{RELEASE} --query mean --column age --bounds 0 100"
REGRESS = "regress survey.csv --law bernoulli"
FORCED = f"{REGRESS} --mechanism forced-response --set truth=2/3"
COUNTS = "regress survey.csv 'visits ~ age' --law poisson --mechanism"

TABLE = [
    ("infre sir", "Did you mean 'infer'"),
    ("frobnicate", "noisewise --help"),
    ("problems --jsn", "Did you mean --json"),
    ("infer sir --bogus", "no option --bogus. See noisewise infer --help"),
    ("infer", "Missing argument 'PROBLEM_OR_FILE'"),
    ("infer sri", "did you mean 'sir'"),
    ("infer outbreak:flu", "did you mean 'outbreak-"),
    ("infer notes.txt", "model.py:model"),
    ("infer sir --methd sppe", "Did you mean --method"),
    ("infer sir --method spe", "did you mean 'sppe'"),
    ("infer sir --method confidential", "in Python"),
    ("infer sir --method da-mcmc", "ImportanceSampling"),
    ("infer sir --epsilon -1", "above 0"),
    ("infer sir --epsilon nan", "above 0"),
    ("infer sir --epsilon ten", "valid number"),
    ("infer sir --seed 1.5", "valid integer"),
    ("infer sir --seed -1", "greater than or equal to 0"),
    ("infer sir --workers 0", "greater than or equal to 1"),
    ("infer sir --certify 10", "1000"),
    ("infer sir --set num_rounds", "name=value"),
    ("infer sir --set 'a b=3'", "name=value"),
    ("infer sir --num-rounds 3", "--method"),
    ("infer sir --target-ess 0", "whole number >= 1"),
    ("infer sir --max-minutes 0", "> 0"),
    ("infer sir --method sppe --set nmu_rounds=3", "did you mean 'num_rounds'"),
    ("infer sir --method sppe --set estimator=flow", "in Python"),
    ("infer sir --method sppe --set num_rounds=many", "whole number"),
    ("infer sir --method sppe --num-rounds 0", "whole number >= 1"),
    (
        "infer sir --method sppe --num-rounds 3 --set num_rounds=2",
        "by its own option and by --set: use one",
    ),
    ("infer sir --method sppe --set num_noise=2 --set num_noise=3", "choose one"),
    ("infer sir --epsilon 3 --release release.json", "the release says"),
    ("infer sir --release missing.json", "no file missing.json"),
    ("infer sir --release model.py", "not JSON"),
    ("infer sir --release release.json", "10"),
    ("infer gaussian-mean --release release.json", "100 records"),
    ("infer gaussian-mean --out people.csv", "people.csv"),
    ("infer gaussian-mean --out .", "choose a new folder"),
    ("infer model.py", "--release release.json"),
    ("infer missing.py --release release.json", "no file missing.py"),
    ("infer model.py:modle --release release.json", "did you mean 'model'"),
    ("infer model.py:three --release release.json", "nw.PrivateModel"),
    ("infer model.py:pair --release release.json", r"def model\(release\)"),
    ("infer model.py:undefined --release release.json", rf"line {PRIOS}\).*'prios' is not defined"),
    ("infer model.py:narrow --release release.json", "200 record"),
    ("infer people.csv --release release.json", "model.py:model"),
    ("infer model.py --release release.json --release release.json", "twice"),
    ("resume", "Missing argument 'RUN'"),
    ("resume runs/none", "no run runs/none"),
    ("resume .", "command.json"),
    ("report runs/none", "no run runs/none"),
    ("compare runs/a", "Two|two"),
    ("compare runs/a runs/a", "twice"),
    ("compare runs/a runs/b", "no folder runs/a"),
    ("plan gaussian-mean --unit household", "--unit goes with --neighbours"),
    ("plan gaussian-mean --max-per-cell 1", "--max-per-cell goes with --neighbours"),
    ("plan gaussian-mean --neighbours add", "replace-one or add-remove"),
    ("plan gaussian-mean --neighbours add-remove", "divides by the number of records"),
    ("import", "Missing argument 'SOURCE'"),
    ("import table", "Missing argument 'FILE'"),
    ("import table stays.csv", "Missing option '--out'"),
    ("import tabel stays.csv --out new.json", "did you mean 'table'"),
    ("import table stays.csv --out new.json", "needs --value"),
    (f"{STAYS}", "needs --mechanism"),
    (f"{STAYS} --mechanism laplace", "--scale"),
    (f"{STAYS} --mechanism lapalce --scale 3", "did you mean 'laplace'"),
    (f"{STAYS} --mechanism laplace --scale 3", "row 2 .* got 'X'.*--absent"),
    (f"{STAYS} --mechanism laplace --scale b --absent X", "no column 'b'"),
    (f"{STAYS} --mechanism laplace --scale 3 --risk lower", "takes no --risk"),
    (f"{STAYS} --mechanism laplace --scale 3 --epsilon 1 --rho 1", "one guarantee"),
    (f"{STAYS} --mechanism laplace --scale 3 --unit visit", "--neighbours"),
    (f"{STAYS} --mechanism laplace --scale 3 --max-per-cell 1", "--max-per-cell goes with"),
    (f"{STAYS} --mechanism laplace --scale 3 --neighbours some", "replace-one or add-remove"),
    (f"{STAYS} --mechanism laplace --scale 3 --sensitivity two", "separated by commas"),
    (f"{STAYS} --mechanism rounded --absent X", "--base"),
    (f"{STAYS} --mechanism rounded --base 2.5 --absent X", "whole number"),
    (f"{STAYS} --mechanism a=laplace --scale 3 --absent X", "--by COLUMN"),
    (f"{STAYS} --mechanism laplace --scale 3 --by district --absent X", "--by COLUMN"),
    (
        f"{STAYS} --mechanism laplace --mechanism exact --by district",
        "NAME=VALUE here, such as old",
    ),
    (f"{STAYS} --mechanism a=laplace --mechanism a=exact --by district", "twice for 'a'"),
    (f"{STAYS} --mechanism a=laplace --by district --scale 3 --absent X", "has no entry"),
    (f"{STAYS} --mechanism laplace --scale 3 --threshold least --absent X", "no column 'least'"),
    (f"{STAYS} --mechanism laplace --scale 3 --missing district", "--missing district=TEXT"),
    (f"{STAYS} --mechanism laplace --scale 3 --missing district=Lost", "nowhere 'Lost'"),
    (
        f"{STAYS.replace('count', 'size')} --mechanism laplace --scale 3 --threshold 1",
        "--cells FILE",
    ),
    (
        "import table stays.csv --value size --label district --out stays.csv --mechanism exact",
        "exists and is kept",
    ),
    ("import table none.csv --value a --label b --mechanism exact --out new.json", "no file"),
    ("import opendp stays.csv --out new.json", "--sensitivity"),
    ("import opendp stays.csv --sensitivity 1 --out new.json", "summarize"),
    ("import opendp release.json --sensitivity 1 --out new.json", "dp.serialize"),
    ("import opendp stays.csv --value a --out new.json", "takes no --value"),
    ("import wikimedia stays.csv --out new.json", "needs --cells"),
    ("import wikimedia stays.csv --cells pages.csv --out new.json", "--date"),
    (
        "import wikimedia stays.csv --cells pages.csv --date 2020-01-01 --out new.json",
        "has 1 cells, expected 7",
    ),
    (
        "import wikimedia stays.csv --cells pages.csv --date 2025-01-01 --out new.json",
        "--risk lower",
    ),
    ("import census-gls stays.csv --out new.json", "no column 'geocode'|must name"),
    ("import census-nmf stays.csv --out new.json", "needs --query"),
    ("import census-nmf stays.csv --query total --out new.json", "--variance-is-sigma-squared"),
    (
        "import census-nmf stays.csv --query total --variance-is-sigma-squared --out new.json",
        "not a Parquet file",
    ),
    ("regress", "Missing argument 'FILE'"),
    ("regress survey.csv", "Missing argument 'FORMULA'"),
    ("regress survey.csv 'rr ~ age'", "Missing option '--law'"),
    (f"{REGRESS} 'rr ~ age'", "Missing option '--mechanism'"),
    ("regress none.csv 'rr ~ age' --law bernoulli --mechanism exact", "no file none.csv"),
    (f"{FORCED} 'rr ~ agee'", "no column of the data: did you mean 'age'"),
    (f"{FORCED} 'r ~ age'", "did you mean 'rr'"),
    (f"{FORCED} 'rr age'", "must name an outcome"),
    (f"{FORCED} 'rr ~ (age'", "cannot be read"),
    (f"{FORCED} 'rr ~ town'", "'3a' is no number: correct"),
    (f"{FORCED} 'rr ~ income'", "missing or infinite in 1 of 6 rows.*--drop-missing"),
    (f"{FORCED} 'sex ~ age'", "must hold numbers, but holds text such as 'f'"),
    (f"{FORCED} 'visits ~ age'", "'visits' is 7 in row 2, but the mechanism releases"),
    (f"{FORCED.replace('bernoulli', 'bernouli')} 'rr ~ age'", "law is one of 'bernoulli'"),
    (f"{FORCED.replace('bernoulli', 'poisson')} 'rr ~ age'", "law='bernoulli'"),
    (f"{FORCED.replace('forced', 'fored')} 'rr ~ age'", "did you mean 'forced-response'"),
    (f"{FORCED} --set yse=1/6 'rr ~ age'", "no parameter 'yse': did you mean 'yes'"),
    (f"{FORCED} --set yes=0.9 'rr ~ age'", "probabilities from 0.9 to"),
    (f"{FORCED} --set yes=1/0 'rr ~ age'", "no finite number"),
    (f"{FORCED} --set yes 'rr ~ age'", "NAME=VALUE, such as truth=2/3"),
    (f"{FORCED} --set truth=3/4 'rr ~ age'", "truth twice"),
    (f"{FORCED} --set yes=shar 'rr ~ age'", "no column of survey.csv.*did you mean 'share'"),
    (f"{FORCED} --set yes=sex 'rr ~ age'", "must hold numbers"),
    (f"{FORCED} --set yes=income 'rr ~ age'", "'income' has missing numbers"),
    (f"{REGRESS} 'rr ~ age' --mechanism warner", "needs its parameter 'p': write --set p=NUMBER"),
    (f"{REGRESS} 'rr ~ age' --mechanism a=exact", "--by COLUMN --mechanism ENTRY=NAME"),
    (f"{FORCED} 'rr ~ age' --by arm", "has no such column"),
    (f"{FORCED} 'rr ~ age' --by sex", "--mechanism ENTRY=NAME for each entry"),
    (f"{REGRESS} 'rr ~ age' --by sex --mechanism f=exact", "'m' have no mechanism"),
    (
        f"{REGRESS} 'rr ~ age' --by sex --mechanism f=exact --mechanism m=exact --set d.p=1",
        "no mechanism is of the entry 'd'",
    ),
    (f"{FORCED} 'rr ~ age' --prior 'agee=Normal(0,1)'", "did you mean 'age'"),
    (f"{FORCED} 'rr ~ age' --prior 'age=Norml(0,1)'", "did you mean 'Normal'"),
    (f"{FORCED} 'rr ~ age' --prior 'age=Normal(0)'", r"write Normal\(loc, scale\)"),
    (f"{FORCED} 'rr ~ age' --prior 'age=Normal(0,-1)'", "scale must be above 0"),
    (f"{FORCED} 'rr ~ age' --prior 'age=Uniform(1,0)'", "lower bound must be below"),
    (f"{FORCED} 'rr ~ age' --prior 'age=exit()'", "no law that it takes"),
    (f"{FORCED} 'rr ~ age' --prior age", "NAME=LAW"),
    (
        f"{FORCED} 'rr ~ age' --prior 'age=Normal(0,1)' --prior 'age=Normal(0,2)'",
        "twice for 'age'",
    ),
    (f"{FORCED} 'rr ~ age' --offset expsure", "no column of the data"),
    (f"{FORCED} 'rr ~ age' --link log", "takes the links 'logit', 'probit'"),
    (f"{FORCED} 'rr ~ age' --weights weight", "--weights names 'weight', but survey.csv"),
    (f"{FORCED} 'rr ~ age' --weights negative", "weights must be 6 numbers of 0 or more"),
    (f"{FORCED} 'rr ~ age' --missing rr", "COLUMN=TEXT"),
    (f"{FORCED} 'rr ~ age' --missing rr=9", "has nowhere '9'"),
    (f"{FORCED} 'rr ~ age' --separator ';'", "cannot be read|no column"),
    (f"{FORCED.replace('survey', 'semicolons')} 'rr ~ age'", "write --separator"),
    (f"{FORCED.replace('survey.csv', '.')} 'rr ~ age'", "regular file|folder|directory"),
    (f"{FORCED} 'rr ~ age' --max-minutes 0", "> 0"),
    (f"{FORCED} 'rr ~ age' --out .", "choose a new folder"),
    (f"{COUNTS} rounded --set base=2", "'visits' is 7 in row 2.*multiples of 2|visits.*releases"),
    (f"{COUNTS} rounded --set base=2.5", "whole number"),
    (f"{COUNTS} exact --set threshold=8", "visits.*releases"),
    (f"{COUNTS} exact --set base=3", "no parameter 'base'"),
    (f"{COUNTS} gaussian --set scale=-1", "> 0|above 0"),
    ("release", "Missing option '--data'"),
    ("release --data people.csv --query mean", "Missing option '--out'"),
    (f"{RELEASE} --query meen", "did you mean 'mean'"),
    (f"{RELEASE} --query mean --epsilon 1 --column age", "--bounds 0 100"),
    (f"{RELEASE} --query mean --epsilon 1 --bounds 0 100", "--column"),
    (
        f"{RELEASE} --query mean --epsilon 1 --bounds 0 100 --column agee",
        "no column 'agee': did you mean 'age'",
    ),
    (
        f"{RELEASE} --query mean --epsilon 1 --bounds 0 100 --column weight",
        "no column 'weight': its first line must name",
    ),
    (
        f"{RELEASE} --query mean --epsilon 1 --bounds 0,1,2 --column age",
        "'--bounds': .* valid number",
    ),
    (
        f"{RELEASE} --query mean --epsilon 1 --column age --bounds 0",
        "'--epsilon'|requires 2|valid float",
    ),
    (f"{RELEASE} --query mean --epsilon 1 --bounds 0 100 --column sex", "a plain number such as"),
    (f"{RELEASE} --query mean --epsilon 1 --bounds 100 0 --column age", "low < high"),
    (
        f"{RELEASE} --query mean --epsilon 1 --column age --bounds-of sex=0,1 --bounds 0 1",
        "does not use",
    ),
    (f"{RELEASE} --query mean --epsilon 1 --column age --bounds-of age=0", "LOW,HIGH"),
    (f"{MEAN}", "--epsilon 1"),
    (f"{MEAN} --delta 1e-6", "--epsilon 1"),
    (f"{MEAN} --epsilon 1 --rho 1", "one guarantee"),
    (f"{MEAN} --epsilon 0", "infinite noise"),
    (f"{MEAN} --epsilon -1", "at least 0|>= 0|> 0"),
    (f"{MEAN} --epsilon 1 --edges 1,2", "takes no --edges"),
    (f"{MEAN} --epsilon 1 --budget 2", "--ledger ledger.json"),
    (f"{MEAN} --epsilon 1 --ledger ledger.json", "--budget 2"),
    (f"{MEAN} --epsilon 1 --ledger ledger.json --budget two", "numbers separated by commas"),
    (f"{MEAN} --epsilon 1 --ledger ledger.json --budget 1,2,3", "EPSILON,DELTA"),
    (f"{MEAN} --epsilon 1 --ledger release.json", "another kind of file"),
    (
        (
            "release --data people.csv --out release.json --query mean --column age --bounds 0 100"
            " --epsilon 1"
        ),
        "kept",
    ),
    (
        (
            "release --data people.csv --out none/new.json --query mean --column age --bounds 0 1"
            " --epsilon 1"
        ),
        "No such",
    ),
    (
        "release --data none.csv --out new.json --query mean --bounds 0 1 --epsilon 1",
        "no file none.csv",
    ),
    ("release --data . --out new.json --query mean --bounds 0 1 --epsilon 1", "CSV file"),
    (f"{RELEASE} --query histogram --column age --epsilon 1", "--edges"),
    (f"{RELEASE} --query histogram --column age --epsilon 1 --edges 0,a", "separated by commas"),
    (f"{RELEASE} --query histogram --column age --epsilon 1 --edges 3,2,1", "increasing"),
    (
        f"{RELEASE} --query histogram --column age --column size --epsilon 1 --edges 1,2,3",
        "one column",
    ),
    (f"{RELEASE} --query median --column age --epsilon 1", "--candidates 10,20,30"),
    (f"{RELEASE} --query contingency-table --column sex --epsilon 1", "--levels"),
    (f"{RELEASE} --query contingency-table --column sex --levels sex --epsilon 1", "smoker=no,yes"),
    (
        f"{RELEASE} --query contingency-table --column sex --levels sex=f,x --epsilon 1",
        "list them all",
    ),
    (
        f"{RELEASE} --query contingency-table --column sex --levels smoker=no,yes --epsilon 1",
        "does not use",
    ),
    (f"{RELEASE} --query regression-moments --predictors age --epsilon 1", "--outcome"),
    (f"{RELEASE} --query infection-curve --column age --epsilon 1", "0 or 1"),
    ("release --data town.csv --out new.json --query infection-curve --trials 9 --rho 1", "PureDP"),
]


@pytest.mark.parametrize(("line", "hint"), TABLE, ids=[line for line, _ in TABLE])
def test_one_helpful_sentence(run, folder, line, hint):
    before = sorted(folder.rglob("*"))
    result = run(*shlex.split(line))
    lines = [text for text in result.stderr.splitlines() if text.strip()]
    assert result.exit_code == 1
    assert result.stdout == ""
    assert len(lines) == 1, result.stderr
    assert lines[0].startswith("Error: ")
    assert re.search(hint, lines[0]), lines[0]
    assert "Traceback" not in result.stderr
    assert "unexpected" not in lines[0]
    left = [
        path
        for path in sorted(folder.rglob("*"))
        if path not in before and "__pycache__" not in path.parts
    ]
    assert left in ([], [Path(folder / "ledger.json.lock")])


def test_the_table_is_long_enough():
    assert len(TABLE) >= 30
    assert len(dict(TABLE)) == len(TABLE)


def test_debug_shows_where(run):
    result = run("infer", "sri", "--debug")
    assert result.exit_code == 1
    assert "Traceback" in result.stderr
    assert "did you mean 'sir'" in result.stderr


def test_a_mistake_of_our_own_is_told_apart(run, monkeypatch):
    monkeypatch.setattr("noisewise.cli.catalogue.problems", lambda: 1 / 0)
    result = run("problems")
    assert result.exit_code == 70
    assert "--debug" in result.stderr
    assert "Traceback" not in result.stderr
