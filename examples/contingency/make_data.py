"""Two thousand invented people: age group, exposed or not, ill or not. The odds ratio is 2.5."""

import csv

import numpy as np

rng = np.random.default_rng(7)
age = rng.choice(4, size=2_000, p=[0.3, 0.3, 0.25, 0.15])
exposed = rng.random(2_000) < 0.3
log_odds = -2.5 + 0.5 * age + np.log(2.5) * exposed
ill = rng.random(2_000) < 1.0 / (1.0 + np.exp(-log_odds))
with open("people.csv", "w", newline="") as file:
    rows = zip(age, exposed.astype(int), ill.astype(int), strict=True)
    csv.writer(file).writerows([("age", "exposed", "ill"), *rows])
