"""The normalization of box regressions in MS-CNN and Cascade R-CNN."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from anylayer.layer import Message, field, need
from anylayer.network import Array


class BBoxReg(Message):
    """BBoxRegParameter of MS-CNN."""

    bbox_mean: tuple[float, ...] = field(1, "float", repeated=True, doc="means of x, y, width, height")
    bbox_std: tuple[float, ...] = field(2, "float", repeated=True, doc="standard deviations of them")

    def undone(self, moves: Array) -> Array:
        """Return `moves` (..., 4) without their normalization; without both fields there is none."""
        return without_normalization(moves, self.bbox_mean, self.bbox_std)


def without_normalization(moves: Array, mean: Sequence[float], std: Sequence[float]) -> Array:
    """Return `moves` (..., 4), or moves * std + mean when both have values."""
    if not (mean and std):
        return moves
    for name, values in (("bbox_mean", mean), ("bbox_std", std)):
        need(len(values) == 4, f"{name} must have 4 values (x, y, width, height), got {len(values)}")
    return moves * np.array(std, np.float32) + np.array(mean, np.float32)
