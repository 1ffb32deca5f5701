"""Input."""

from __future__ import annotations

from anylayer.layer import Layer, field, layer, need
from anylayer.layers.caffe._messages import BlobShape
from anylayer.network import TensorType


@layer("Input")
class Input(Layer):
    """Declare inputs of the network, one per output.

    `shape` states one shape per output, or one for all.
    Source: BVLC/caffe src/caffe/layers/input_layer.cpp.
    """

    message = "input_param"
    numbers = {"": 143}
    role = "input"
    shape: tuple[BlobShape, ...] = field(
        1,
        BlobShape,
        repeated=True,
        doc="one for all outputs, or one per output; none: given when the network runs",
    )

    def input_types(self) -> list[TensorType | None]:
        shapes = [tuple(s.dim) for s in self.shape]
        need(
            len(shapes) in (0, 1, self.outputs),
            f"shape must be given once, once for each of the {self.outputs} outputs, or never, got {len(shapes)}",
        )
        if not shapes:
            return [None] * self.outputs
        for shape in shapes:
            need(all(d >= 0 for d in shape), f"dimensions must be 0 or more, got {shape}")
        return [TensorType.of(s) for s in (shapes if len(shapes) == self.outputs else shapes * self.outputs)]
