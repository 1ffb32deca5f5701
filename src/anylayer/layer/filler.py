"""Fillers: the values of weights that no file holds. Caffe's files declare them, and other formats have none."""

from __future__ import annotations

import numpy as np

from anylayer.errors import need
from anylayer.layer.fields import Enum, Message, field
from anylayer.network import Array, Shape


class Filler(Message):
    """Caffe's FillerParameter: the values that a weight has before training."""

    type: str = field(1, "string", "constant")
    value: float = field(2, "float", 0.0)
    min: float = field(3, "float", 0.0)
    max: float = field(4, "float", 1.0)
    mean: float = field(5, "float", 0.0)
    std: float = field(6, "float", 1.0)
    sparse: int = field(7, "int32", -1)
    variance_norm: str = field(8, Enum("FAN_IN", "FAN_OUT", "AVERAGE"), "FAN_IN")

    def fill(self, shape: Shape) -> Array | None:
        """Return float32 values of this shape, or None where the filler is random.

        The bilinear filler (filler.hpp, BilinearFiller) interpolates: value(i) = 1 - |i/f - c| per axis, with
        f = ceil(k/2) and c = (2f - 1 - f % 2) / 2f for a kernel of size k.
        """
        if self.type == "constant":
            return np.broadcast_to(np.float32(self.value), shape)
        if self.type == "bilinear":
            need(
                len(shape) == 4 and shape[2] == shape[3],
                f"a bilinear filler needs a square 2-D kernel, got {shape}",
            )
            k = shape[3]
            f = -(-k // 2)
            c = (2 * f - 1 - f % 2) / (2.0 * f)
            line = 1 - np.abs(np.arange(k) / f - c)
            return np.broadcast_to(np.outer(line, line), shape).astype(np.float32)
        return None
