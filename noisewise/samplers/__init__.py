"""Draws from unnormalised densities; nothing here knows of privacy."""

from typing import TYPE_CHECKING

from noisewise._core.lazy import attach

if TYPE_CHECKING:
    from noisewise.samplers.centring import Centred, LocationScale, shares_at
    from noisewise.samplers.no_u_turn import nuts
    from noisewise.samplers.numpyro_shares import loc_scale_shares

__all__ = ["Centred", "LocationScale", "loc_scale_shares", "nuts", "shares_at"]

__getattr__, __dir__ = attach(
    __name__,
    {
        "Centred": "noisewise.samplers.centring",
        "LocationScale": "noisewise.samplers.centring",
        "loc_scale_shares": "noisewise.samplers.numpyro_shares",
        "nuts": "noisewise.samplers.no_u_turn",
        "shares_at": "noisewise.samplers.centring",
    },
)
