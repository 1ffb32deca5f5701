"""NonZero: the positions of elements."""

from __future__ import annotations

from typing import Any

import numpy as np

from anylayer.layer import attribute, layer
from anylayer.layers.openvino._base import OpenVINOLayer
from anylayer.layers.openvino.casting import dtype_of
from anylayer.network import Array


@layer("NonZero")
class NonZero(OpenVINOLayer):
    """Return the positions of the elements that are not 0, one row per axis.

    Source: OpenVINO operation specification, NonZero-3.
    """

    output_type: str = attribute("string", "i64", doc="dtype of the positions: i32 or i64")

    def forward(self, x: Array) -> Any:
        return np.stack(np.nonzero(x)).astype(dtype_of(self.output_type, "output_type"))
