"""DummyData."""

from __future__ import annotations

from typing import Any

from anylayer.errors import given
from anylayer.layer import Layer, field, layer, need
from anylayer.layers.caffe._messages import BlobShape, FillerParameter, constant
from anylayer.network import Array, TensorType


@layer("DummyData")
class DummyData(Layer):
    """Return constants of the given shapes, one output per shape.

    Source: BVLC/caffe src/caffe/layers/dummy_data_layer.cpp.
    """

    message = "dummy_data_param"
    numbers = {"": 109}
    data_filler: tuple[FillerParameter, ...] = field(
        1, FillerParameter, repeated=True, doc="values: none (0), one for all outputs, or one each"
    )
    num: tuple[int, ...] = field(2, "uint32", repeated=True, doc="older spelling of shape: axis 0")
    channels: tuple[int, ...] = field(3, "uint32", repeated=True, doc="older spelling of shape: axis 1")
    height: tuple[int, ...] = field(4, "uint32", repeated=True, doc="older spelling of shape: axis 2")
    width: tuple[int, ...] = field(5, "uint32", repeated=True, doc="older spelling of shape: axis 3")
    shape: tuple[BlobShape, ...] = field(6, BlobShape, repeated=True, doc="one for all outputs, or one each")

    def fillers(self) -> list[tuple[FillerParameter, tuple[int, ...]]]:
        """Return the filler and the shape of each output."""
        return list(zip(self._each("data_filler", self.data_filler or (constant(0),)), self._shapes()))

    def forward(self) -> list[Array]:
        outputs = []
        for i, (filler, shape) in enumerate(self.fillers()):
            rule = (
                f"data_filler {i} of type '{filler.type}' draws random values, so the output is not defined. "
                "Make it an Input layer and feed the values"
            )
            outputs.append(given(filler.fill(shape), rule))
        return outputs

    def _each(self, name: str, values: tuple[Any, ...]) -> tuple[Any, ...]:
        need(
            len(values) in (1, self.outputs),
            f"{name} must be given once, or once for each of the {self.outputs} outputs, got {len(values)}",
        )
        return values if len(values) == self.outputs else values * self.outputs

    def _shapes(self) -> list[tuple[int, ...]]:
        older = ("num", "channels", "height", "width")
        if not any(self.has(n) for n in older):
            shapes = [tuple(s.dim) for s in self._each("shape", self.shape)]
        else:
            need(not self.shape, "give shape, or num, channels, height and width, not both")
            shapes = list(zip(*(self._each(n, getattr(self, n)) for n in older)))
        for shape in shapes:
            need(all(d >= 0 for d in shape), f"dimensions must be 0 or more, got {shape}")
        return [tuple(map(int, s)) for s in shapes]


@layer("DummyData", dialects=("sophgo",))
class DummyDataInput(DummyData):
    """Make inputs of the network of the given shapes, whose fillers have no effect (Sophgo).

    Source: the Caffe in tpu-mlir 1.30.2 (executed).
    """

    role = "input"
    needs_dialect = True

    def input_types(self) -> list[TensorType | None]:
        need(self.shape, "give shape: num, channels, height and width make empty arrays in Sophgo's Caffe")
        return [TensorType.of(shape) for _, shape in self.fillers()]
