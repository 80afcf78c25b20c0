"""Draws from unnormalised densities; nothing here knows of privacy."""

from typing import TYPE_CHECKING

from noisewise._core.lazy import attach

if TYPE_CHECKING:
    from noisewise.samplers.hierarchies.centring import Centred, LocationScale, shares_at
    from noisewise.samplers.hierarchies.no_u_turn import nuts
    from noisewise.samplers.hierarchies.numpyro_shares import loc_scale_shares

__all__ = ["Centred", "LocationScale", "loc_scale_shares", "nuts", "shares_at"]

__getattr__, __dir__ = attach(
    __name__,
    {
        "Centred": "noisewise.samplers.hierarchies.centring",
        "LocationScale": "noisewise.samplers.hierarchies.centring",
        "loc_scale_shares": "noisewise.samplers.hierarchies.numpyro_shares",
        "nuts": "noisewise.samplers.hierarchies.no_u_turn",
        "shares_at": "noisewise.samplers.hierarchies.centring",
    },
)
