"""What a certificate advises, and how a front end words it."""

from __future__ import annotations

import dataclasses
import math

Advice = tuple[tuple[str, int | None], ...]
"""Fields of `Wording`, each with a number of simulations where the words need one."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Wording:
    """How a front end words each piece of advice; `{num}` stands for a number of simulations.

    Attributes:
        use: The corrected draws are certified.
        may_use: They are not certified, but exact.
        refine: A better approximation would be certified.
        more: More simulations would certify.
        records: Only methods that change one record at a time will do.
    """

    use: str
    may_use: str
    refine: str
    more: str
    records: str
    check: str = "Check the observation and the model."

    def words(self, advice: Advice) -> list[str]:
        """The sentences for this advice, without empty ones."""
        said = ((getattr(self, name), num) for name, num in advice)
        return [text if num is None else text.format(num=num) for text, num in said if text]


PYTHON = Wording(
    use="Use certificate.corrected.",
    may_use="They are exact and may be used: certificate.corrected.",
    refine=(
        "Train further (more rounds or simulations), or let"
        " ImportanceSampling(proposal=certificate.corrected) find a better one."
    ),
    more="Pass num_simulations={num} or more.",
    records=(
        "For models of records use DataAugmentationMCMC or ExactSMC, which change one record at a"
        " time."
    ),
)


def rounded_up(number: float) -> int:
    """A number of simulations, rounded up to two digits.

    >>> rounded_up(12_345.0), rounded_up(7.2)
    (13000, 8)
    """
    unit = 10 ** max(0, math.floor(math.log10(number)) - 1)
    return math.ceil(number / unit) * unit
