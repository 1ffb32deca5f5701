"""BiasAdd."""

from __future__ import annotations

from typing import Any

from anylayer.layers.tensorflow._base import Enum, Operation, attribute, layer, need


@layer("BiasAdd")
@layer("BiasAddV1")
class BiasAdd(Operation):
    """Add one number a channel."""

    data_format: str = attribute(Enum("NHWC", "NCHW"), "NHWC")

    def forward(self, x: Any, bias: Any) -> Any:
        rank = len(x.shape)
        need(rank >= 2, f"the input must have 2 axes or more, got shape {tuple(x.shape)}")
        axis = 1 if self.data_format == "NCHW" else rank - 1
        need(
            tuple(bias.shape) == (x.shape[axis],),
            f"the bias must be of shape ({x.shape[axis]},), one number a channel, got {tuple(bias.shape)}",
        )
        return x + bias.reshape(-1, *(1,) * (rank - 1 - axis))
