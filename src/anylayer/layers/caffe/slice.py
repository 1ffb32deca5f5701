"""Slice."""

from __future__ import annotations

from anylayer.layer import Layer, field, layer, need
from anylayer.layers.caffe._axes import canonical
from anylayer.network import Array


@layer("Slice")
class Slice(Layer):
    """Split the input along `axis` into one part per output, at the given points or into equal parts.

    Source: BVLC/caffe src/caffe/layers/slice_layer.cpp.
    """

    message = "slice_param"
    numbers = {"": 126}
    slice_dim: int = field(1, "uint32", 1, doc="older spelling of axis; not negative")
    slice_point: tuple[int, ...] = field(2, "uint32", repeated=True, doc="start of each part except the first")
    axis: int = field(3, "int32", 1, doc="axis to split")

    def setup(self) -> None:
        need(not (self.has("axis") and self.has("slice_dim")), "give axis or slice_dim, not both")

    def forward(self, x: Array) -> list[Array]:
        older = self.has("slice_dim")
        axis = canonical(self.slice_dim, x, "slice_dim") if older else canonical(self.axis, x)
        size = x.shape[axis]
        ends = self._ends(size)
        before = (slice(None),) * axis
        windows = [(*before, slice(a, b)) for a, b in zip([0, *ends], ends)]
        return [x[window] for window in windows]

    def _ends(self, size: int) -> list[int]:
        points = self.slice_point
        if not points:
            need(
                self.outputs <= size and size % self.outputs == 0,
                f"{self.outputs} outputs do not divide the axis of size {size}; give slice_point",
            )
            return [size // self.outputs * (i + 1) for i in range(self.outputs)]
        need(
            len(points) == self.outputs - 1,
            f"{self.outputs} outputs need {self.outputs - 1} slice_point, got {len(points)}",
        )
        ends = [*points, size]
        need(
            all(a < b for a, b in zip([0, *ends], ends)),
            f"slice_point must increase from 1 to at most {size - 1}, got {list(points)}",
        )
        return ends
