"""What will an analyst learn at each privacy budget? Answered before any data are released, from
one set of simulations.
"""

from noisewise.planning.outcome import Plan
from noisewise.planning.run import plan

__all__ = ["Plan", "plan"]
