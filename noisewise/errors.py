"""Every error noisewise raises on purpose.

Each also is the built-in exception a Python user would expect (`ValueError`, `TypeError`, ...), so
`except ValueError` keeps working. Messages say what was expected, what came, and what to do; they
never contain confidential data.
"""

from noisewise._core.text import printable


class NoisewiseError(Exception):
    """Base class of all deliberate errors. A message may quote a file of a stranger, but cannot
    command a terminal.
    """

    def __str__(self) -> str:
        return printable(super().__str__())


class InvalidInputError(NoisewiseError, ValueError):
    """A value is out of range, of the wrong shape, not finite, or unknown."""


class InvalidTypeError(NoisewiseError, TypeError):
    """An argument is of the wrong kind, often two arguments swapped."""


class MissingCapabilityError(NoisewiseError, TypeError):
    """An object lacks what was asked of it: a mechanism without density, a query without
    sensitivity.
    """


class ConversionError(NoisewiseError, ValueError):
    """A privacy guarantee does not imply one of the requested kind.

    Gaussian noise, for instance, gives no pure epsilon-DP.
    """


class SensitivityError(NoisewiseError, ValueError):
    """A mechanism was calibrated for less than the query's sensitivity, or the query has none
    between these neighbours: the guarantee would be false.
    """


class SimulationError(NoisewiseError, RuntimeError):
    """A user's simulator or query failed."""


class ReleaseError(NoisewiseError, ValueError):
    """A release was refused, before any randomness touched the data."""


class BudgetError(NoisewiseError, ValueError):
    """A ledger would pass its limit, or is not the one that was used before."""


class FileFormatError(NoisewiseError, ValueError):
    """A file is truncated, altered, foreign, or of another version.

    Whatever is wrong with a file, reading it raises this or an `InvalidInputError`, and runs no
    code.
    """


class ResumeError(InvalidInputError):
    """A run directory was started with another model, other settings or other packages; nothing in
    it was touched.

    """


class StorageError(NoisewiseError, OSError):
    """The disk is full, or fails; what was written before is intact."""


class MissingDependencyError(NoisewiseError, ImportError):
    """An optional package is not installed; the message has the install line."""
