"""Invented cases of a disease in twelve districts, one line each. Districts differ: their log rates
have mean -4.6 and spread .4.
"""

import csv

import numpy as np

PEOPLE = [2100, 2600, 3300, 4000, 4900, 6000, 7400, 9100, 11200, 13800, 16900, 20800]

rng = np.random.default_rng(7)
cases = rng.poisson(PEOPLE * np.exp(rng.normal(-4.6, 0.4, size=12)))
with open("cases.csv", "w", newline="") as file:
    lines = [[f"d{j}"] for j, count in enumerate(cases, 1) for _ in range(count)]
    csv.writer(file).writerows([["district"], *lines])
