"""The worst error of `Privatized.log_prob` for each kind of law and mechanism, as a table.

python -m tests.laws.accuracy [PART OF A NAME ...]     # all kinds take some minutes

Errors are relative to the larger of 1 and |log p|, against sums term by term (`reference`) and
quadrature (`test_continuous`).
"""

import itertools
import sys

import jax
import numpy as np

import noisewise as nw
from tests.laws import test_closed_forms as closed_forms
from tests.laws.further import EVERYTHING
from tests.laws.test_continuous import LAWS, NOISES, around, exactly


def errors_of_sums(name):
    """Of the cells of one group."""
    group = EVERYTHING[name]
    exact = group.references().astype(float)
    with jax.enable_x64(True):
        law = nw.Privatized(group.law(*group.parameters), group.mechanism)
        found = np.asarray(law.log_prob(group.y))
    return np.abs(found - exact) / np.maximum(1.0, np.abs(exact))


def errors_of_integrals(name, noise):
    """Of a continuous law at three scales of noise."""
    make, _, parameters, _, y = LAWS[name]
    make_noise, log_eta = NOISES[noise]
    errors = []
    for scale in (0.1, 3.0, 100.0):
        shifted = y + (scale if scale > 50.0 else 0.0)
        with jax.enable_x64(True):
            law = nw.Privatized(make(*parameters), make_noise(scale=scale))
            found = np.asarray(law.log_prob(shifted))
        for j in range(y.size):
            exact = exactly(name, j, log_eta(scale), shifted[j], around(shifted[j], scale))
            errors.append(abs(found[j] - exact) / max(1.0, abs(exact)))
    return np.array(errors)


def kinds():
    """Names, and functions that give the errors of their cells."""
    for name in EVERYTHING:
        yield name, lambda name=name: errors_of_sums(name)
    for noise in closed_forms.NOISES:
        yield f"normal, {noise}", lambda noise=noise: closed_forms.errors(noise)
    for name, noise in itertools.product(LAWS, NOISES):
        yield f"{name}, {noise} (integral)", lambda pair=(name, noise): errors_of_integrals(*pair)


def main(wanted):
    cells, worst = 0, 0.0
    for name, errors in kinds():
        if wanted and not any(part in name for part in wanted):
            continue
        found = errors()
        cells, worst = cells + found.size, max(worst, found.max())
        print(f"| {name} | {found.size} | {found.max():.1e} |", flush=True)
    print(f"{cells} cases, worst {worst:.1e}")


if __name__ == "__main__":
    main(sys.argv[1:])
