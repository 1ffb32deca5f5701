"""Run networks over data sets on the processes of a Ray cluster, by Ray Data: `anylayer.ray.map`."""

from anylayer.ray.mapping import Mapped, map

__all__ = ["Mapped", "map"]
