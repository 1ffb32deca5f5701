"""Quantized operators of the domain com.microsoft, as ONNX Runtime's tools write them.

Each is traced as the standard operators that it stands for. Source: ONNX Runtime, docs/ContribOperators.md.
"""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from anylayer import ops
from anylayer.errors import TraceError, need
from anylayer.layer import Layer, layer
from anylayer.layer.arguments import axis_of, channels_first, restored
from anylayer.layer.fields import attribute
from anylayer.layers._table import define
from anylayer.layers.onnx._call import OpCall
from anylayer.layers.onnx._quantized import dequantize, product, quantize, rescaled
from anylayer.layers.onnx._record import run
from anylayer.layers.onnx._windows import average_pool, explicit
from anylayer.libraries.onnx import TensorProto, helper
from anylayer.network import Array, Node
from anylayer.tracing import constant_of, hold, is_traced, running_graph

_f = np.float32


class _Quantized(Layer):
    """An operator on quantized numbers, with at least `least` inputs."""

    message = "attribute"
    least: ClassVar[int] = 5
    """The smallest number of inputs."""

    def prepare(self, node: Node, dialect: str | None) -> None:
        count = len(node.inputs)
        need(count >= self.least, f"takes at least {self.least} inputs, got {count}")
        super().prepare(node, dialect)


@layer("com.microsoft.DequantizeLinear")
class DequantizeLinear(_Quantized):
    """Compute (x - zero) * scale, for integers of 4 bits and more.

    The output has the shape of x. scale and zero have one number, one per slice of `axis`, or one per block of
    block_size slices.
    Source: ONNX Runtime, docs/ContribOperators.md, com.microsoft.DequantizeLinear.
    """

    axis: int = attribute("int64", 1)
    block_size: int = attribute("int64", 0)
    least = 2

    def forward(self, x: Array, scale: Array, zero: Array | None = None) -> Any:
        return dequantize(x, scale, zero, self.axis, self.block_size)


@layer("com.microsoft.QuantizeLinear")
class QuantizeLinear(_Quantized):
    """Compute round(x / scale) + zero, for integers of 4 bits and more.

    The output has the shape of x and the dtype of zero. scale and zero have one number, one per slice of `axis`,
    or one per block of block_size slices.
    Source: ONNX Runtime, docs/ContribOperators.md, com.microsoft.QuantizeLinear.
    """

    axis: int = attribute("int64", 1)
    saturate: int = attribute("int64", 1)
    block_size: int = attribute("int64", 0)
    least = 2

    def forward(self, x: Array, scale: Array, zero: Array | None = None) -> Array:
        return quantize(x, scale, zero, self.axis, self.block_size)


# -------------------------------------------------------------------------------------------------- elementwise


def _of_two(
    function: Any,
    a: Array,
    a_scale: Array,
    a_zero: Array,
    b: Array,
    b_scale: Array,
    b_zero: Array,
    y_scale: Array,
    y_zero: Array | None = None,
) -> Array:
    """Return a function of two quantized arrays, computed on real numbers and quantized again."""
    y = function(dequantize(a, a_scale, a_zero), dequantize(b, b_scale, b_zero))
    return quantize(y, y_scale, y_zero, dtype=a.dtype)


class _Binary(_Quantized):
    """An elementwise function of two quantized inputs, computed on real numbers."""

    least = 7
    compute: ClassVar[Any]

    def forward(self, *given: Array) -> Array:
        return _of_two(type(self).compute, *given)


_DETAILS = """Each quantized array q is followed by its scale and its zero point, and stands for (q - zero) *
    scale.
    Source: ONNX Runtime, docs/ContribOperators.md, com.microsoft.{}."""

for _name, _what, _function in (("QLinearAdd", "a + b", np.add), ("QLinearMul", "a * b", np.multiply)):
    define(
        f"com.microsoft.{_name}",
        _Binary,
        f"Compute {_what} of two quantized inputs whose shapes broadcast.",
        _DETAILS.format(_name),
        compute=_function,
    )


class _Unary(_Quantized):
    """A function of a quantized input, computed on real numbers."""

    least = 4

    def forward(
        self, x: Array, x_scale: Array, x_zero: Array, y_scale: Array, y_zero: Array | None = None
    ) -> Array:
        return quantize(self.computed(dequantize(x, x_scale, x_zero)), y_scale, y_zero, dtype=x.dtype)

    def computed(self, x: Any) -> Any:
        """Return the function of real numbers."""
        raise NotImplementedError


define(
    "com.microsoft.QLinearSigmoid",
    _Unary,
    "Compute 1 / (1 + exp(-x)) for each element of a quantized input.",
    _DETAILS.format("QLinearSigmoid"),
    computed=lambda self, x: ops.sigmoid(x),
)
define(
    "com.microsoft.QLinearLeakyRelu",
    _Unary,
    "Compute x where x > 0, else alpha * x, for each element of a quantized input.",
    _DETAILS.format("QLinearLeakyRelu"),
    alpha=attribute("float", 0.01),
    computed=lambda self, x: ops.leaky_relu(x, self.alpha),
)


@layer("com.microsoft.QLinearSoftmax")
class QLinearSoftmax(_Unary):
    """Compute the softmax of a quantized input along `axis`.

    Before operator set 13, all axes from `axis` on are treated as one. Each quantized array q is followed by its
    scale and its zero point, and stands for (q - zero) * scale.
    Source: ONNX Runtime, docs/ContribOperators.md, com.microsoft.QLinearSoftmax.
    """

    axis: int = attribute("int64", -1)
    opset: int = attribute("int64")

    def computed(self, x: Array) -> Array:
        rank = len(x.shape)
        axis = axis_of(self.axis, rank)
        if self.opset >= 13 or axis == rank - 1:
            return ops.softmax(x, axis=axis)
        rows = int(np.prod(x.shape[:axis], dtype=np.int64))
        return ops.softmax(x.reshape(rows, -1), axis=-1).reshape(x.shape)


@layer("com.microsoft.QLinearWhere")
class QLinearWhere(_Quantized):
    """Select elements of two quantized inputs by a boolean condition, as numpy.where. The shapes broadcast.

    Each quantized array q is followed by its scale and its zero point, and stands for (q - zero) * scale.
    Source: ONNX Runtime, docs/ContribOperators.md, com.microsoft.QLinearWhere.
    """

    least = 8

    def forward(self, which: Array, *given: Array) -> Array:
        return _of_two(lambda a, b: np.where(which, a, b), *given)


@layer("com.microsoft.QLinearConcat")
class QLinearConcat(_Quantized):
    """Concatenate quantized inputs along `axis`.

    The first two inputs are scale and zero point of the output. Each quantized array q is followed by its scale
    and its zero point, and stands for (q - zero) * scale.
    Source: ONNX Runtime, docs/ContribOperators.md, com.microsoft.QLinearConcat.
    """

    axis: int = attribute("int64")

    def forward(self, y_scale: Array, y_zero: Array, *given: Any) -> Array:
        need(len(given) % 3 == 0, f"takes 2 inputs and then groups of 3, got {len(given) + 2} inputs")
        parts = [dequantize(*given[i : i + 3]) for i in range(0, len(given), 3)]
        return quantize(np.concatenate(parts, axis=self.axis), y_scale, y_zero, dtype=given[0].dtype)


# -------------------------------------------------------------------------------------------------------- pools


@layer("com.microsoft.QLinearGlobalAveragePool")
class QLinearGlobalAveragePool(_Unary):
    """Compute the mean of each channel of a quantized input.

    (N, C, ...) to (N, C, 1, ...), or (N, ..., C) to (N, 1, ..., C) with channels_last. Each quantized array q is
    followed by its scale and its zero point, and stands for (q - zero) * scale.
    Source: ONNX Runtime, docs/ContribOperators.md, com.microsoft.QLinearGlobalAveragePool.
    """

    channels_last: int = attribute("int64", 0)

    def computed(self, x: Array) -> Any:
        rank = len(x.shape)
        need(rank > 2, f"takes an input (N, C, ...), got shape {tuple(x.shape)}")
        axes = range(1, rank - 1) if self.channels_last else range(2, rank)
        return x.mean(axis=tuple(axes), keepdims=True)


@layer("com.microsoft.QLinearAveragePool")
class QLinearAveragePool(_Unary):
    """Compute the mean of each window of a quantized input.

    (N, C, ...) to (N, C, ...), or (N, ..., C) to (N, ..., C) with channels_last. Each quantized array q is
    followed by its scale and its zero point, and stands for (q - zero) * scale.
    Source: ONNX Runtime, docs/ContribOperators.md, com.microsoft.QLinearAveragePool.
    """

    kernel_shape: tuple[int, ...] = attribute("int64", repeated=True)
    strides: tuple[int, ...] = attribute("int64", (), repeated=True)
    pads: tuple[int, ...] = attribute("int64", (), repeated=True)
    auto_pad: str = attribute("string", "NOTSET")
    ceil_mode: int = attribute("int64", 0)
    count_include_pad: int = attribute("int64", 0)
    channels_last: int = attribute("int64", 0)

    def computed(self, x: Array) -> Any:
        data_format = "channels_last" if self.channels_last else "channels_first"
        x = channels_first(x, data_format)
        names = ("kernel_shape", "strides", "pads", "auto_pad", "ceil_mode", "count_include_pad")
        call = OpCall("AveragePool", 18, [x], {name: getattr(self, name) or None for name in names})
        explicit(call)
        return restored(average_pool(call, x), data_format)


# ----------------------------------------------------------------------------------------------------- products


@layer("com.microsoft.QGemm")
class QGemm(_Quantized):
    """Compute alpha * A @ B + C for quantized A and B, each optionally transposed.

    (M, K) and (K, N) to (M, N). C holds integers in steps of alpha * a_scale * b_scale. The output is quantized
    when it has a scale, else float32. Each quantized array q is followed by its scale and its zero point, and
    stands for (q - zero) * scale.
    Source: ONNX Runtime, docs/ContribOperators.md, com.microsoft.QGemm.
    """

    alpha: float = attribute("float", 1.0)
    transA: int = attribute("int64", 0)
    transB: int = attribute("int64", 0)
    least = 6

    def forward(
        self,
        a: Array,
        a_scale: Array,
        a_zero: Array,
        b: Array,
        b_scale: Array,
        b_zero: Array,
        c: Array | None = None,
        y_scale: Array | None = None,
        y_zero: Array | None = None,
    ) -> Any:
        step = (_f(self.alpha) * a_scale.reshape(()) * b_scale).astype(np.float32)
        if is_traced(a) or is_traced(b):
            columns = 0 if self.transB else 1
            inputs = [dequantize(a, a_scale, a_zero), dequantize(b, b_scale, b_zero, columns)]
            attrs = {"alpha": self.alpha, "transA": self.transA, "transB": self.transB}
            y = run("Gemm", 18, [*inputs, None if c is None else dequantize(c, step, None, -1)], attrs)[0]
            return y if y_scale is None else quantize(y, y_scale, y_zero, dtype=a.dtype)
        a, b = (a.T if self.transA else a), (b.T if self.transB else b)
        total = product(a, a_zero, b, b_zero)
        total = total if c is None else total + c
        step = step.reshape(()) if step.size == 1 else step
        if y_scale is None:
            return total.astype(np.float32) * step
        kind = a.dtype if y_zero is None else y_zero.dtype
        return rescaled(total, (step / y_scale.reshape(())).astype(np.float32), y_zero, kind)


def _to_float(a: Array, a_scale: Any, a_zero: Any, b: Array, b_scale: Any, b_zero: Any, bias: Array | None) -> Any:
    """Return the product of quantized matrices in float32, plus a bias."""
    total = run("MatMulInteger", 18, [a, b, a_zero, b_zero], {})[0]
    one = b_scale.reshape(()) if b_scale.size == 1 else b_scale
    y = total.astype(np.float32) * (a_scale * one)
    return y if bias is None else y + bias


@layer("com.microsoft.MatMulIntegerToFloat")
class MatMulIntegerToFloat(_Quantized):
    """Compute the product of quantized matrices in float32, plus a bias.

    A (..., M, K) and B (..., K, N) to (..., M, N). A quantized q stands for (q - zero) * scale.
    Source: ONNX Runtime, docs/ContribOperators.md, com.microsoft.MatMulIntegerToFloat.
    """

    least = 4

    def forward(
        self,
        a: Array,
        b: Array,
        a_scale: Array,
        b_scale: Array,
        a_zero: Array | None = None,
        b_zero: Array | None = None,
        bias: Array | None = None,
    ) -> Any:
        return _to_float(a, a_scale.reshape(()), a_zero, b, b_scale, b_zero, bias)


@layer("com.microsoft.DynamicQuantizeMatMul")
class DynamicQuantizeMatMul(_Quantized):
    """Quantize A by its own range, and compute its product with a quantized matrix, plus a bias.

    A (..., M, K) float32 and B (K, N) quantized to (..., M, N) float32.
    Source: ONNX Runtime, docs/ContribOperators.md, com.microsoft.DynamicQuantizeMatMul.
    """

    least = 3

    def forward(
        self, a: Array, b: Array, b_scale: Array, b_zero: Array | None = None, bias: Array | None = None
    ) -> Any:
        x, scale, zero = run("DynamicQuantizeLinear", 18, [a], {}, 3)
        return _to_float(x, scale, zero, b, b_scale, b_zero, bias)


@layer("com.microsoft.MatMulNBits")
class MatMulNBits(_Quantized):
    """Compute the product with a matrix of 2-, 4- or 8-bit integers, scaled by blocks.

    A (..., K) and B (N, K) to (..., N). B holds `bits` per number in blocks of `block_size` along K; each block
    has a scale and a zero point, 2^(bits - 1) by default. The weights are constants.
    Source: ONNX Runtime, docs/ContribOperators.md, com.microsoft.MatMulNBits.
    """

    K: int = attribute("int64")
    N: int = attribute("int64")
    bits: int = attribute("int64", 4)
    block_size: int = attribute("int64")
    accuracy_level: int = attribute("int64", 0)
    weight_prepacked: int = attribute("int64", 0)
    least = 3

    def forward(
        self, a: Array, b: Array, scales: Array, zero: Array | None = None, groups: Any = None, bias: Any = None
    ) -> Any:
        need(self.bits in (2, 4, 8), f"bits must be 2, 4 or 8, got {self.bits}")
        need(groups is None and not self.weight_prepacked, "g_idx and prepacked weights are not supported")
        packed, offset = constant_of(b), constant_of(zero)
        if packed is None or is_traced(scales):
            raise TraceError("its weights must be constants")
        blocks = -(-self.K // self.block_size)
        values = _unpacked(packed.reshape(-1), self.bits)[: self.N * blocks * self.block_size]
        need(
            values.size == self.N * blocks * self.block_size,
            f"its weights must have {self.N * blocks * self.block_size} values, got {values.size}",
        )
        values = values.reshape(self.N, -1)[:, : self.K].T
        if offset is None:
            offset = np.full((self.N, blocks), 1 << (self.bits - 1), np.uint8)
        elif offset.dtype == np.uint8:
            offset = _unpacked(offset.reshape(self.N, -(-blocks * self.bits // 8)), self.bits)[:, :blocks]
        factor, offset = scales.reshape(self.N, blocks).T, offset.reshape(self.N, blocks).T
        if offset.dtype == np.uint8:
            w = self._dequantized(values, factor, offset, is_traced(b))
        else:
            need(not is_traced(b), "its zero points are real numbers", TraceError)
            index = np.arange(self.K) // self.block_size
            w = (values - offset[index].astype(np.float32)) * factor[index].astype(np.float32)
        y = a @ w.astype(a.dtype)
        return y if bias is None else y + bias

    def _dequantized(self, values: Array, factor: Array, offset: Array, traced: bool) -> Any:
        """Return the real numbers of quantized ones (K, N), which stay integers of 4 or 8 bits in a trace."""
        if traced:
            kind = TensorProto.UINT4 if self.bits <= 4 else TensorProto.UINT8
            dtype = np.dtype(helper.tensor_dtype_to_np_dtype(kind))
            values, offset = hold(running_graph(), values.astype(dtype)), offset.astype(dtype)
        return dequantize(values, factor, offset, 0, self.block_size)


def _unpacked(data: Array, bits: int) -> Array:
    """Return integers of a few bits each, the lowest bits of a byte first, along the last axis."""
    parts = [(data >> np.uint8(shift)) & np.uint8((1 << bits) - 1) for shift in range(0, 8, bits)]
    return np.stack(parts, -1).reshape(*data.shape[:-1], -1)
