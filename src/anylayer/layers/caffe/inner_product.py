"""InnerProduct."""

from __future__ import annotations

from math import prod

from anylayer import ops
from anylayer.layer import Enum, Layer, field, layer, need
from anylayer.layers.caffe._axes import canonical
from anylayer.layers.caffe._messages import (
    INTEL,
    FillerParameter,
    engine_field,
    filler_if_written,
    no_effect,
)
from anylayer.network import Array


@layer("InnerProduct")
class InnerProduct(Layer):
    """Compute the product of a matrix with the vector of all axes from `axis` on, plus a bias.

    (..., K values) to (..., num_output).
    Weights: (num_output, K), or (K, num_output) with `transpose`; bias (num_output,).
    Source: BVLC/caffe src/caffe/layers/inner_product_layer.cpp.
    """

    message = "inner_product_param"
    numbers = {"": 117}
    num_output: int = field(1, "uint32", doc="number of outputs")
    bias_term: bool = field(2, "bool", True, doc="add a bias")
    weight_filler: FillerParameter = field(3, FillerParameter, doc="filler of the weights without a weights file")
    bias_filler: FillerParameter = field(4, FillerParameter, doc="values of the bias without a file; default 0")
    axis: int = field(5, "int32", 1, doc="first axis of the vector")
    transpose: bool = field(6, "bool", False, doc="whether the weights are transposed in the file")

    engine: str = engine_field(7, INTEL, Enum("DEFAULT", "CAFFE", "MKL2017", "MKLDNN"))
    relu: bool = no_effect(8, "bool", False)
    negative_slope: float = no_effect(9, "float", 0.0)

    def setup(self) -> None:
        need(self.num_output > 0, "num_output must be positive, got 0")

    def forward(self, x: Array) -> Array:
        axis = canonical(self.axis, x)
        before, length = tuple(x.shape[:axis]), prod(x.shape[axis:])
        shape = (length, self.num_output) if self.transpose else (self.num_output, length)
        weights = self.blob(0, shape, filler_if_written(self.weight_filler, self.has("weight_filler")))
        bias = self.blob(1, (self.num_output,), self.bias_filler, what="bias") if self.bias_term else None
        count = before[0] if axis == 1 else prod(before)  # the number of regions may be dynamic
        rows = x if axis == 1 and len(x.shape) == 2 else x.reshape(count, length)
        y = ops.gemm(rows, weights, bias, trans_b=not self.transpose)
        return y if axis == 1 else y.reshape(*before, self.num_output)
