"""ContinuationIndicator (Intel, Sophgo)."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from anylayer.layer import Layer, field, layer, need
from anylayer.network import Array

MAX_VALUES = 1 << 24  # elements of the output


@layer("ContinuationIndicator")
class ContinuationIndicator(Layer):
    """Return the indicators (time_step, batch_size) of sequences that begin in the first step: 0, and then 1.

    An input, if there is one, is not read.
    Source: the Caffe in tpu-mlir 1.30.2 (executed); intel/caffe src/caffe/proto/caffe.proto.
    """

    message = "continuation_indicator_param"
    numbers: ClassVar = {"": 311, "sophgo": 311, "intel": 200}
    time_step: int = field(1, "uint32", 0, doc="number of steps; at least 1")
    batch_size: int = field(2, "uint32", 1, doc="number of sequences; at least 1", dialects={"intel": 0})
    flag: bool = field(3, "bool", False, doc="Sophgo: whether the first step has 1, too")

    def setup(self) -> None:
        steps, batch = self.time_step, self.batch_size
        need(steps > 0 and batch > 0, f"time_step and batch_size must be at least 1, got {steps} and {batch}")
        need(
            steps * batch <= MAX_VALUES,
            f"time_step * batch_size must be at most {MAX_VALUES}, got {steps * batch}",
        )

    def forward(self, x: Array | None = None) -> Any:
        first = np.arange(self.time_step)[:, None] > (-1 if self.flag else 0)
        return np.broadcast_to(first.astype(np.float32), (self.time_step, self.batch_size))
