"""Figures: axes in, axes out. Each plot takes posteriors or arrays of draws, and returns what it
drew on.

- One posterior, or several methods: `marginals`, `pair_plot`, `forest`.
- Does the model fit, and is the posterior calibrated: `predictive_check`, `rank_ecdf`,
  `coverage_curve`.
- How methods compare: `ks_heatmap`, `convergence`, `loss_curves`.
- What privacy costs: `privacy_utility`, `uncertainty_bars`.
- Epidemics: `infection_fan`.

`ax=` or `axes=` takes axes of your own. Nothing is shown and no global setting is changed. The
modules are named after their plots; `tables` says what is accepted as draws, `densities` smooths
them, `style` holds colours, type and names.
"""

from noisewise.plotting.calibration_curves import coverage_curve, rank_ecdf
from noisewise.plotting.convergence import convergence
from noisewise.plotting.forest import forest
from noisewise.plotting.infection_fan import infection_fan
from noisewise.plotting.ks_heatmap import ks_heatmap
from noisewise.plotting.loss_curves import loss_curves
from noisewise.plotting.marginals import marginals
from noisewise.plotting.pair_plot import pair_plot
from noisewise.plotting.predictive_check import predictive_check
from noisewise.plotting.privacy_utility import privacy_utility
from noisewise.plotting.tables import named_draws, named_truth
from noisewise.plotting.uncertainty_bars import uncertainty_bars

__all__ = [
    "convergence",
    "coverage_curve",
    "forest",
    "infection_fan",
    "ks_heatmap",
    "loss_curves",
    "marginals",
    "named_draws",
    "named_truth",
    "pair_plot",
    "predictive_check",
    "privacy_utility",
    "rank_ecdf",
    "uncertainty_bars",
]
