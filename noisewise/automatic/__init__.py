"""`nw.infer`: a posterior for analysts who do not want to choose a method."""

from noisewise.automatic.infer import infer

__all__ = ["infer"]
