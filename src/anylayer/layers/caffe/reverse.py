"""Reverse."""

from __future__ import annotations

from anylayer.layer import Array, Layer, field, layer, need
from anylayer.layer.arguments import axes_of


@layer("Reverse")
class Reverse(Layer):
    """Reverse the order of the elements along `axis`, which may be several axes.

    y[i0 .. in] = x[j0 .. jn] with j = size - 1 - i on the given axes, j = i on the others. Negative axes count
    from the end. Without an axis, the dialects ascend, model-optimizer and sophgo reverse axis 0; in others it is
    refused.
    Source: Ascend parser/proto/caffe/caffe.proto; synopsys-caffe src/caffe/layers/reverse_layer.cpp.
    """

    message = "reverse_param"
    numbers = {"": 157, "ascend": 157, "synopsys": 261, "sophgo": 309, "model-optimizer": 147}
    axis: tuple[int, ...] = field(
        1, "int32", repeated=True, doc="axes to reverse",
        dialects=dict.fromkeys(("ascend", "model-optimizer", "openvino", "sophgo"), (0,)),
    )  # fmt: skip

    def forward(self, x: Array) -> Array:
        need(self.axis, "axis is missing: forks of Caffe take axis 0, refuse, or mean another operator")
        rank = len(x.shape)
        turned = axes_of(self.axis, rank, "axis")
        return x[tuple(slice(None, None, -1) if i in turned else slice(None) for i in range(rank))]
