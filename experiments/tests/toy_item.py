"""The smallest item: one number."""

import matplotlib.pyplot as plt

TITLE = "A toy"
PAPER = "Table 0"
QUESTION = "Is a third less than a half?"
PAPER_VALUES = {"half": 0.5}


def run(scale, progress):
    progress("dividing")
    return {"third": 1.0 / 3.0, "draws": [[1.0, 2.0], [3.0, float("nan")]], "seeds": scale.seeds}


def table(result):
    return f"| paper | ours |\n|---|---|\n| {PAPER_VALUES['half']} | {result['third']} |"


def figure(result):
    made, ax = plt.subplots()
    ax.plot([0, 1], [0, result["third"]])
    return made


def paragraph(result):
    return f"{result['third']:.2f} is less."
