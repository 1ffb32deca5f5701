"""Layers that combine inputs, an input and weights, or elements, by sums and products."""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from math import prod
from typing import Any, ClassVar

import numpy as np

from anylayer import ops
from anylayer.layer import Array, Enum, Layer, field, layer, need, need_shape
from anylayer.layers._resampling import plane_of
from anylayer.layers._table import operators, row
from anylayer.layers.caffe._axes import broadcast_shape, canonical, weight_shape
from anylayer.layers.caffe._messages import (
    INTEL,
    FillerParameter,
    constant,
    engine_field,
    no_effect,
    reads,
    written_filler,
)


@layer("Eltwise")
class Eltwise(Layer):
    """Compute the product, weighted sum or maximum of inputs of equal shape, elementwise.

    In place, Caffe clears the output before it reads input 0, so SUM and MAX (not PROD) lose the values of input
    0. The same is done here.
    Source: BVLC/caffe src/caffe/layers/eltwise_layer.cpp.
    """

    elementwise = True
    message = "eltwise_param"
    numbers = {"": 110}
    operation: str = field(1, Enum("PROD", "SUM", "MAX"), "SUM", doc="operation on the inputs")
    coeff: tuple[float, ...] = field(2, "float", repeated=True, doc="SUM: a factor for each input; default 1")
    stable_prod_grad: bool = field(3, "bool", True, doc="how PROD's gradient is computed (training)")

    engine: str = engine_field(4, INTEL)

    def forward(self, *inputs: Array) -> Array:
        need(len(inputs) >= 2, f"takes 2 inputs or more, got {len(inputs)}")
        need(
            len(self.coeff) in (0, len(inputs)),
            f"coeff must be given once for each of the {len(inputs)} inputs, got {len(self.coeff)}",
        )
        need(not (self.operation == "PROD" and self.coeff), "coeff goes with operation SUM only, got PROD")
        first = tuple(inputs[0].shape)
        for i, x in enumerate(inputs[1:], 1):
            need(
                tuple(x.shape) == first,
                f"inputs must have one shape: input 0 is {first}, input {i} is {tuple(x.shape)}. "
                "Eltwise does not broadcast; Scale and Bias do",
            )
        if self.operation == "PROD":
            return reduce(np.multiply, inputs)
        terms = list(zip(inputs, self.coeff or (1.0,) * len(inputs)))
        if self.in_place:
            self.note(
                f"{self.operation} in place leaves input 0 out, as Caffe does (it clears the output first). "
                "Give the top a name of its own to include it"
            )
            terms = terms[1:]
        if self.operation == "MAX":
            return reduce(np.maximum, [x for x, _ in terms])
        return reduce(np.add, [x if c == 1 else x * np.float32(c) for x, c in terms])


@layer("InnerProduct")
class InnerProduct(Layer):
    """Compute the product of a matrix with the vector of all axes from `axis` on, plus a bias.

    (..., K values) to (..., num_output).
    Weights: (num_output, K), or (K, num_output) with `transpose`; bias (num_output,).
    Source: BVLC/caffe src/caffe/layers/inner_product_layer.cpp.
    """

    message = "inner_product_param"
    numbers = {"": 117}
    num_output: int = field(1, "uint32", least=1, doc="number of outputs")
    bias_term: bool = field(2, "bool", True, doc="add a bias")
    weight_filler: FillerParameter = field(3, FillerParameter, doc="filler of the weights without a weights file")
    bias_filler: FillerParameter = field(4, FillerParameter, doc="values of the bias without a file; default 0")
    axis: int = field(5, "int32", 1, doc="first axis of the vector")
    transpose: bool = field(6, "bool", False, doc="whether the weights are transposed in the file")

    engine: str = engine_field(7, INTEL, Enum("DEFAULT", "CAFFE", "MKL2017", "MKLDNN"))
    relu: bool = no_effect(8, "bool", False)
    negative_slope: float = no_effect(9, "float", 0.0)

    def forward(self, x: Array) -> Array:
        axis = canonical(self.axis, x)
        before, length = tuple(x.shape[:axis]), prod(x.shape[axis:])
        shape = (length, self.num_output) if self.transpose else (self.num_output, length)
        weights = self.blob(0, shape, written_filler(self, "weight_filler"))
        bias = self.blob(1, (self.num_output,), self.bias_filler, what="bias") if self.bias_term else None
        count = before[0] if axis == 1 else prod(before)  # the number of regions may be dynamic
        rows = x if axis == 1 and len(x.shape) == 2 else x.reshape(count, length)
        y = ops.gemm(rows, weights, bias, trans_b=not self.transpose)
        return y if axis == 1 else y.reshape(*before, self.num_output)


@layer("MatMul")
class MatMul(Layer):
    """Compute a @ b.T for matrices a (dim_1, dim_2) and b (dim_3, dim_2), the first elements of the inputs.

    Two inputs of any shape to (dim_1, dim_3). The shapes of the inputs have no meaning: the elements, in C order,
    are those of the matrices, and further ones are not read. There is no batch.
    Source: the Caffe in tpu-mlir 1.30.2 (executed).
    """

    message = "matmul_param"
    numbers: ClassVar = {"": 307, "sophgo": 307}
    dim_1: int = field(1, "uint32", least=1, doc="rows of the first matrix")
    dim_2: int = field(2, "uint32", least=1, doc="columns of both matrices")
    dim_3: int = field(3, "uint32", least=1, doc="rows of the second matrix")

    def forward(self, a: Array, b: Array) -> Array:
        return self._first(a, "input 0", self.dim_1) @ self._first(b, "input 1", self.dim_3).T

    def _first(self, x: Array, what: str, rows: int) -> Array:
        """Return the first elements of `x` as (rows, dim_2)."""
        length, count = rows * self.dim_2, prod(x.shape)
        need(count >= length, f"{what} must have at least {rows} * {self.dim_2} elements, got {count}")
        if count > length:
            self.note(
                f"only the first {length} of the {count} elements of {what} are read, as Sophgo's Caffe does"
            )
        return x.reshape(count)[:length].reshape(rows, self.dim_2)


@layer("Mean")
class Mean(Layer):
    """Compute output_scale * (input_scale * x +- mean_scale * value) with one value per channel.

    Each input (N, C, H, W) gives an output of its shape. Fewer values than channels are repeated.
    Source: lmb-freiburg/flownet2 src/caffe/layers/mean_layer.cpp.
    """

    elementwise = True
    message = "mean_param"
    numbers: ClassVar = {"synopsys": 154}
    operation: str = field(1, Enum(ADD=1, SUBTRACT=4), doc="whether the mean is added or subtracted")
    file: str = field(2, "string", "", doc="a mean image, which is not supported")
    value: tuple[float, ...] = field(3, "float", repeated=True, doc="the means of the channels")
    mean_scale: float = field(4, "float", 1.0, doc="factor of the mean")
    input_scale: float = field(5, "float", 1.0, doc="factor of the input")
    output_scale: float = field(6, "float", 1.0, doc="factor of the output")

    def setup(self) -> None:
        need(not self.has("file"), f"a mean image ('{self.file}') is not supported; give its means as value")
        need(self.value, "needs at least one value")

    def forward(self, *inputs: Array) -> list[Array]:
        need(self.outputs == len(inputs), f"{len(inputs)} inputs need {len(inputs)} outputs, got {self.outputs}")
        return [self._subtract(x, i) for i, x in enumerate(inputs)]

    def _subtract(self, x: Array, i: int) -> Array:
        plane_of(x, f"input {i}")
        channels, count = x.shape[1], len(self.value)
        need(channels % count == 0, f"{count} values do not divide the {channels} channels of input {i}")
        sign = np.float32(-1 if self.operation == "SUBTRACT" else 1)
        mean = np.tile(np.array(self.value, np.float32), channels // count) * sign * np.float32(self.mean_scale)
        scaled = x * np.float32(self.input_scale) if self.input_scale != 1 else x
        result = scaled + mean.reshape(-1, 1, 1)
        return result * np.float32(self.output_scale) if self.output_scale != 1 else result


@layer("Scale")
class Scale(Layer):
    """Multiply by a scale whose axes start at `axis` of the input, the second input or a weight; add a bias.

    The output has the shape of the input.
    Weights: the scale unless it is an input; the bias, of the shape of the scale, with `bias_term`.
    Source: BVLC/caffe src/caffe/layers/scale_layer.cpp.
    """

    elementwise = True
    message = "scale_param"
    numbers = {"": 142}
    axis: int = field(1, "int32", 1, doc="first axis of the input the scale lies on")
    num_axes: int = field(2, "int32", 1, doc="axes a weight covers; -1: all the rest, 0: one value")
    filler: FillerParameter = field(3, FillerParameter, doc="values of the scale without a file; default 1")
    bias_term: bool = field(4, "bool", False, doc="add a bias")
    bias_filler: FillerParameter = field(5, FillerParameter, doc="values of the bias without a file; default 0")

    def forward(self, *inputs: Array) -> Array:
        need(len(inputs) in (1, 2), f"takes 1 or 2 inputs, got {len(inputs)}")
        x = inputs[0]
        if len(inputs) == 2:
            scale = inputs[1]
        else:
            filler = written_filler(self, "filler") or constant(1)
            scale = self.blob(0, weight_shape(x, self.axis, self.num_axes), filler, what="scale")
        lies = broadcast_shape(x, scale.shape, self.axis, "a scale")
        y = x * scale.reshape(lies)
        if not self.bias_term:
            return y
        bias = self.blob(2 - len(inputs), tuple(scale.shape), self.bias_filler, what="bias")
        return y + bias.reshape(lies)


def _axpy(a: Array, x: Array, y: Array) -> Array:
    need_shape(y, tuple(x.shape), "input 2", about=", as input 1")
    need_shape(x, ("N", "C", "..."), "input 1")
    nc = tuple(x.shape[:2])
    need(
        tuple(a.shape[:2]) == nc and all(d == 1 for d in a.shape[2:]),
        f"input 0 must be of shape {nc} or {(*nc, 1, 1)}, one value per channel, got {tuple(a.shape)}",
    )
    return a.reshape(*nc, *(1,) * (len(x.shape) - 2)) * x + y


def _bias(*inputs: Array, axis: int, num_axes: int, filler: FillerParameter, blob: Callable[..., Array]) -> Array:
    need(len(inputs) in (1, 2), f"takes 1 or 2 inputs, got {len(inputs)}")
    x = inputs[0]
    bias = inputs[1] if len(inputs) == 2 else blob(0, weight_shape(x, axis, num_axes), filler, what="bias")
    return x + bias.reshape(broadcast_shape(x, bias.shape, axis, "a bias"))


def _reduction(x: Array, operation: str, axis: int, coeff: float) -> Any:
    axis = canonical(axis, x)
    rows = x.reshape((*x.shape[:axis], prod(x.shape[axis:])))
    rows = np.abs(rows) if operation == "ASUM" else rows * rows if operation == "SUMSQ" else rows
    y = rows.mean(axis=-1) if operation == "MEAN" else rows.sum(axis=-1)
    return y if coeff == 1 else y * np.float32(coeff)


operators(
    Layer,
    "Source: {}.",
    {
        "Axpy": row("Compute a * x + y with one factor a per channel.", _axpy,
            "hujie-frank/SENet src/caffe/layers/axpy_layer.cpp",
            "a (N, C) or (N, C, 1, 1), x and y (N, C, H, W) to (N, C, H, W).", {"numbers": {"caffe2onnx": 151}}),
        "Bias": row("Add a bias whose axes start at `axis` of the input: the second input, or a weight.", _bias,
            "BVLC/caffe src/caffe/layers/bias_layer.cpp", "The output has the shape of the input.",
            reads("bias_param", 141, elementwise=True),
            axis=field(1, "int32", 1, doc="first axis of the input the bias lies on"),
            num_axes=field(2, "int32", 1, doc="axes a weight covers; -1: all the rest, 0: one value"),
            filler=field(3, FillerParameter, doc="values of the weight without a file; default 0")),
        "Reduction": row("Reduce all axes from `axis` on to one number, times `coeff`.", _reduction,
            "BVLC/caffe src/caffe/layers/reduction_layer.cpp",
            "The operation is the sum, the sum of absolute values or squares, or the mean.",
            reads("reduction_param", 136),
            operation=field(1, Enum(SUM=1, ASUM=2, SUMSQ=3, MEAN=4), "SUM",
                doc="sum, sum of absolute values, sum of squares, mean"),
            axis=field(2, "int32", 0, doc="first axis to reduce"),
            coeff=field(3, "float", 1.0, doc="factor of the output")),
    },
    __module__=__name__,
)  # fmt: skip
