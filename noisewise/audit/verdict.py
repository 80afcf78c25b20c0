"""The base of audits' results: a verdict that can be read, printed and asserted."""

from __future__ import annotations

import abc


class AbstractVerdict(abc.ABC):
    """Base of audits' results.

    `bool(audit)` is `audit.passed`, so that `assert audit` fails when a claim is refuted.
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
