"""theta ~ pi: named distributions, their files and their supports."""

from typing import TYPE_CHECKING

from noisewise._core.lazy import attach

if TYPE_CHECKING:
    from noisewise.priors.prior import Prior

__all__ = ["Prior"]

__getattr__, __dir__ = attach(__name__, {"Prior": "noisewise.priors.prior"})
