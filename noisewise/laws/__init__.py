"""Laws of what is released: the confidential statistic summed or integrated out."""

from typing import TYPE_CHECKING

from noisewise._core.lazy import attach

if TYPE_CHECKING:
    from noisewise.laws.privatized import Privatized

__all__ = ["Privatized"]

__getattr__, __dir__ = attach(__name__, {"Privatized": "noisewise.laws.privatized"})
