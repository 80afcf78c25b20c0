"""A thousand invented people answer a delicate question through their own device: each answer is
turned round with probability 1 / (1 + e). Nobody ever holds the true ones.
"""

import numpy as np
import pandas as pd

import noisewise as nw

rng = np.random.default_rng(7)
age = rng.normal(size=1_000).round(3)  # in sds from the mean; public
truth = rng.random(1_000) < 1.0 / (1.0 + np.exp(0.8 - 1.2 * age))
device = nw.mechanisms.RandomizedResponse(truth_probability=1.0 / (1.0 + np.exp(-1.0)))
answers = np.asarray(device.sample(7, truth.astype(float)))
table = pd.DataFrame({"person": range(1_000), "answer": answers})
nw.Release.from_table(table, value="answer", labels=["person"], mechanism=device).save(
    "release.json"
)
pd.DataFrame({"age": age}).to_csv("ages.csv", index=False)
