"""How mechanisms carry the relation of neighbours for which their sensitivity is stated."""

from __future__ import annotations

from typing import Any

import equinox as eqx

from noisewise._core import specs
from noisewise._core.neighbours import REPLACE_ONE, as_neighbours


def neighbours_field() -> Any:
    """The field `neighbours` of a mechanism that has a `sensitivity`: given by name, no leaf of the
    pytree, left out of texts and files where it is the default.
    """
    return eqx.field(
        default=REPLACE_ONE,
        static=True,
        kw_only=True,
        converter=as_neighbours,
        metadata=specs.LEFT_OUT,
    )
