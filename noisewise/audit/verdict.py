"""What audits have in common: a verdict that can be asked for, printed and asserted."""

from __future__ import annotations

import abc


class AbstractVerdict(abc.ABC):
    """`passed` says whether a claim survived; `bool(audit)` is the same, so that `assert audit`
    means what it says.
    """

    @property
    @abc.abstractmethod
    def passed(self) -> bool:
        """Whether the claim survived."""

    @abc.abstractmethod
    def describe(self) -> str:
        """The numbers behind the verdict, on one line."""

    def __bool__(self) -> bool:
        return self.passed

    def __repr__(self) -> str:
        return f"{type(self).__name__}({'passed' if self.passed else 'FAILED'}; {self.describe()})"
