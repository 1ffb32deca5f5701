"""Run networks over files and data sets on the processes of a Ray cluster: `anylayer.ray.map`."""

from anylayer.ray.mapping import Mapped, map

__all__ = ["Mapped", "map"]
