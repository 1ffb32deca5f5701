"""Messages, enums and settings that several layers of Caffe share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from anylayer.layer import Array, Enum, Layer, Message, Shape, field, need

ENGINE = Enum("DEFAULT", "CAFFE", "CUDNN", "MKL2017", "MKLDNN")
EPSILONS = (1e-3, 1e-4, 2e-5, 1e-6)
"""What other programs add to a variance where Caffe adds 1e-5: Keras, Caffe2 and PaddlePaddle, MXNet, others."""
INTEL = ("intel", "sophgo")
"""Intel's fork and its descendant, whose messages have further fields."""


def engine_field(number: int, only: Sequence[str] = (), kind: Enum = ENGINE) -> Any:
    """Declare the field that selects Caffe's implementation. `only` are the dialects whose files have it."""
    return field(number, kind, "DEFAULT", doc="Caffe's implementation; no effect here", only=only, hint=True)


def no_effect(number: int, kind: str, default: Any) -> Any:
    """Declare a field of Intel's fork that has no effect in Sophgo's, which computes on a CPU without MKL."""
    return field(number, kind, default, doc="no effect in Sophgo's Caffe", only=("sophgo",))


def reads(message: str, number: int | Mapping[str, int], **body: Any) -> dict[str, Any]:
    """Return the attributes of a class that reads a message with this field number, or one per dialect."""
    numbers = number if isinstance(number, Mapping) else {"": number}
    return {"message": message, "numbers": numbers, **body}


def is_training(layer: Layer) -> bool:
    """Return whether the network is read in phase TRAIN."""
    return bool(layer.settings.get("phase") == "TRAIN")


class FillerParameter(Message):
    """The values that a weight has before training."""

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


def written_filler(layer: Layer, name: str) -> FillerParameter | None:
    """Return the filler that the file writes in a field, or None when it leaves the values of a weight open."""
    return getattr(layer, name) if layer.has(name) else None


def constant(value: float) -> FillerParameter:
    """Return a filler with one value."""
    filler = FillerParameter.__new__(FillerParameter)
    filler.assign({"type": "constant", "value": value})
    return filler


class BlobShape(Message):
    """The sizes of a blob, outermost axis first."""

    dim: tuple[int, ...] = field(1, "int64", repeated=True, doc="size of each axis")
