"""Operators of the domain com.microsoft: quantised ones, as ONNX Runtime's tools write them.

Source: ONNX Runtime, docs/ContribOperators.md. Each is traced as the standard operators that it stands for.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from anylayer import ops
from anylayer.errors import TraceError, need
from anylayer.layer import Layer, layer
from anylayer.layer.fields import attribute
from anylayer.layers.onnx._call import Call
from anylayer.layers.onnx._quantized import dequantize, dynamic, product, quantize, rescaled
from anylayer.layers.onnx._record import recorded
from anylayer.layers.onnx._windows import explicit
from anylayer.network import Node
from anylayer.tracing import is_traced

_OPSET = 21
_f = np.float32


class _Quantized(Layer):
    """What these operators share: how many inputs they take, and which may be left out."""

    message = "attribute"
    least: ClassVar[int] = 5
    """The number of inputs that must be there."""

    def prepare(self, node: Node, dialect: str | None) -> None:
        """Take the node's attributes; refuse too few inputs."""
        count = len(node.inputs)
        need(count >= self.least, f"takes {self.least} inputs or more, got {count}")
        super().prepare(node, dialect)


def _standard(op: str, inputs: Sequence[Any], **attrs: Any) -> Any:
    """Record a standard operator."""
    given = list(inputs)
    while given and given[-1] is None:
        given.pop()
    return recorded(Call(op, _OPSET if op.endswith("izeLinear") else 18, given, attrs))[0]


def _last(x: Any) -> Any:
    """Channels last as channels first."""
    return x.transpose(0, len(x.shape) - 1, *range(1, len(x.shape) - 1))


def _first(x: Any) -> Any:
    """Channels first as channels last."""
    return x.transpose(0, *range(2, len(x.shape)), 1)


@layer("com.microsoft.DequantizeLinear")
class DequantizeLinear(_Quantized):
    """Real numbers of quantised ones, those of 4 and 16 bits included."""

    axis: int = attribute("int64", 1)
    block_size: int = attribute("int64", 0)
    least = 2

    def forward(self, x: Any, scale: Any, zero: Any = None) -> Any:
        return dequantize(x, scale, zero, self.axis, self.block_size)


@layer("com.microsoft.QuantizeLinear")
class QuantizeLinear(_Quantized):
    """Quantised numbers of real ones, those of 4 and 16 bits included."""

    axis: int = attribute("int64", 1)
    saturate: int = attribute("int64", 1)
    block_size: int = attribute("int64", 0)
    least = 2

    def forward(self, x: Any, scale: Any, zero: Any = None) -> Any:
        return quantize(x, scale, zero, self.axis, self.block_size)


# -------------------------------------------------------------------------------------------------- elementwise


class _Binary(_Quantized):
    """Two quantised inputs, combined as real numbers."""

    least = 7
    compute: ClassVar[Any]

    def forward(
        self,
        a: Any,
        a_scale: Any,
        a_zero: Any,
        b: Any,
        b_scale: Any,
        b_zero: Any,
        y_scale: Any,
        y_zero: Any = None,
    ) -> Any:
        y = type(self).compute(dequantize(a, a_scale, a_zero), dequantize(b, b_scale, b_zero))
        return quantize(y, y_scale, y_zero, dtype=a.dtype)


@layer("com.microsoft.QLinearAdd")
class QLinearAdd(_Binary):
    """The sum of two quantised inputs."""

    compute = staticmethod(np.add)


@layer("com.microsoft.QLinearMul")
class QLinearMul(_Binary):
    """The product of two quantised inputs."""

    compute = staticmethod(np.multiply)


class _Unary(_Quantized):
    """A function of a quantised input, computed on real numbers."""

    least = 4

    def forward(self, x: Any, x_scale: Any, x_zero: Any, y_scale: Any, y_zero: Any = None) -> Any:
        return quantize(self.computed(dequantize(x, x_scale, x_zero)), y_scale, y_zero, dtype=x.dtype)

    def computed(self, x: Any) -> Any:
        """The function, of real numbers."""
        raise NotImplementedError


@layer("com.microsoft.QLinearSigmoid")
class QLinearSigmoid(_Unary):
    """The logistic function of a quantised input."""

    def computed(self, x: Any) -> Any:
        return ops.sigmoid(x)


@layer("com.microsoft.QLinearLeakyRelu")
class QLinearLeakyRelu(_Unary):
    """x where positive, else alpha * x, of a quantised input."""

    alpha: float = attribute("float", 0.01)

    def computed(self, x: Any) -> Any:
        return ops.leaky_relu(x, self.alpha)


@layer("com.microsoft.QLinearSoftmax")
class QLinearSoftmax(_Unary):
    """Softmax of a quantised input: along `axis`, or before operator set 13 over all axes from it on."""

    axis: int = attribute("int64", -1)
    opset: int = attribute("int64")

    def computed(self, x: Any) -> Any:
        rank = len(x.shape)
        need(-rank <= self.axis < rank, f"axis={self.axis} must lie in {-rank}..{rank - 1} for {rank} axes")
        axis = self.axis % rank
        if self.opset >= 13 or axis == rank - 1:
            return ops.softmax(x, axis=axis)
        rows = int(np.prod(x.shape[:axis], dtype=np.int64))
        return ops.softmax(x.reshape(rows, -1), axis=-1).reshape(x.shape)


@layer("com.microsoft.QLinearWhere")
class QLinearWhere(_Quantized):
    """One of two quantised inputs, value by value."""

    least = 8

    def forward(
        self,
        which: Any,
        a: Any,
        a_scale: Any,
        a_zero: Any,
        b: Any,
        b_scale: Any,
        b_zero: Any,
        y_scale: Any,
        y_zero: Any = None,
    ) -> Any:
        y = np.where(which, dequantize(a, a_scale, a_zero), dequantize(b, b_scale, b_zero))
        return quantize(y, y_scale, y_zero, dtype=a.dtype)


@layer("com.microsoft.QLinearConcat")
class QLinearConcat(_Quantized):
    """Quantised inputs joined along `axis`; each is followed by its scale and zero point."""

    axis: int = attribute("int64")

    def forward(self, y_scale: Any, y_zero: Any, *given: Any) -> Any:
        need(len(given) % 3 == 0, f"takes inputs in threes behind 2, got {len(given) + 2}")
        parts = [dequantize(*given[i : i + 3]) for i in range(0, len(given), 3)]
        return quantize(np.concatenate(parts, axis=self.axis), y_scale, y_zero, dtype=given[0].dtype)


# -------------------------------------------------------------------------------------------------------- pools


@layer("com.microsoft.QLinearGlobalAveragePool")
class QLinearGlobalAveragePool(_Unary):
    """The mean of each channel of a quantised input."""

    channels_last: int = attribute("int64", 0)

    def computed(self, x: Any) -> Any:
        rank = len(x.shape)
        need(rank > 2, f"takes a map (N, C, ...), got shape {tuple(x.shape)}")
        axes = range(1, rank - 1) if self.channels_last else range(2, rank)
        return x.mean(axis=tuple(axes), keepdims=True)


@layer("com.microsoft.QLinearAveragePool")
class QLinearAveragePool(_Unary):
    """The mean of each window of a quantised input."""

    kernel_shape: tuple[int, ...] = attribute("int64", repeated=True)
    strides: tuple[int, ...] = attribute("int64", (), repeated=True)
    pads: tuple[int, ...] = attribute("int64", (), repeated=True)
    auto_pad: str = attribute("string", "NOTSET")
    ceil_mode: int = attribute("int64", 0)
    count_include_pad: int = attribute("int64", 0)
    channels_last: int = attribute("int64", 0)

    def computed(self, x: Any) -> Any:
        x = _last(x) if self.channels_last else x
        names = ("kernel_shape", "strides", "pads", "auto_pad", "ceil_mode", "count_include_pad")
        call = Call("AveragePool", 18, [x], {name: getattr(self, name) or None for name in names})
        explicit(call)
        y = ops.average_pool(
            x,
            call["kernel_shape"],
            strides=call["strides"],
            pads=call["pads"],
            ceil_mode=bool(self.ceil_mode),
            count_include_pad=bool(self.count_include_pad),
        )
        return _first(y) if self.channels_last else y


# ----------------------------------------------------------------------------------------------------- products


@layer("com.microsoft.QGemm")
class QGemm(_Quantized):
    """alpha * A @ B + C of quantised A and B, either transposed.

    C is in steps of alpha * a_scale * b_scale. The output is of real numbers where it has no scale.
    """

    alpha: float = attribute("float", 1.0)
    transA: int = attribute("int64", 0)
    transB: int = attribute("int64", 0)
    least = 6

    def forward(
        self,
        a: Any,
        a_scale: Any,
        a_zero: Any,
        b: Any,
        b_scale: Any,
        b_zero: Any,
        c: Any = None,
        y_scale: Any = None,
        y_zero: Any = None,
    ) -> Any:
        step = (_f(self.alpha) * a_scale.reshape(()) * b_scale).astype(np.float32)
        if is_traced(a) or is_traced(b):
            columns = 0 if self.transB else 1
            inputs = [dequantize(a, a_scale, a_zero), dequantize(b, b_scale, b_zero, columns)]
            attrs = {"alpha": self.alpha, "transA": self.transA, "transB": self.transB}
            y = _standard("Gemm", [*inputs, None if c is None else dequantize(c, step, None, -1)], **attrs)
            return y if y_scale is None else quantize(y, y_scale, y_zero, dtype=a.dtype)
        a, b = (a.T if self.transA else a), (b.T if self.transB else b)
        total = product(a, a_zero, b, b_zero)
        total = total if c is None else total + c
        step = step.reshape(()) if step.size == 1 else step
        if y_scale is None:
            return total.astype(np.float32) * step
        kind = a.dtype if y_zero is None else y_zero.dtype
        return rescaled(total, (step / y_scale.reshape(())).astype(np.float32), y_zero, kind)


def _to_float(a: Any, a_scale: Any, a_zero: Any, b: Any, b_scale: Any, b_zero: Any, bias: Any) -> Any:
    """Return the product of quantised numbers as real ones, with a bias."""
    if is_traced(a) or is_traced(b):
        total = _standard("MatMulInteger", [a, b, a_zero, b_zero])
    else:
        total = product(a, a_zero, b, b_zero)
    one = b_scale.reshape(()) if b_scale.size == 1 else b_scale
    y = total.astype(np.float32) * (a_scale * one)
    return y if bias is None else y + bias


@layer("com.microsoft.MatMulIntegerToFloat")
class MatMulIntegerToFloat(_Quantized):
    """The product of quantised matrices as real numbers, and a bias."""

    least = 4

    def forward(
        self, a: Any, b: Any, a_scale: Any, b_scale: Any, a_zero: Any = None, b_zero: Any = None, bias: Any = None
    ) -> Any:
        return _to_float(a, a_scale.reshape(()), a_zero, b, b_scale, b_zero, bias)


@layer("com.microsoft.DynamicQuantizeMatMul")
class DynamicQuantizeMatMul(_Quantized):
    """The product of real numbers, quantised to their own range, with a quantised matrix, and a bias."""

    least = 3

    def forward(self, a: Any, b: Any, b_scale: Any, b_zero: Any = None, bias: Any = None) -> Any:
        if is_traced(a):
            x, scale, zero = recorded(Call("DynamicQuantizeLinear", 18, [a], {}, 3))
        else:
            x, scale, zero = dynamic(None, a)
        return _to_float(x, scale, zero, b, b_scale, b_zero, bias)


@layer("com.microsoft.MatMulNBits")
class MatMulNBits(_Quantized):
    """The product with a matrix (N, K) of 2, 4 or 8 bits, in blocks of `block_size` along K, each with a scale."""

    K: int = attribute("int64")
    N: int = attribute("int64")
    bits: int = attribute("int64", 4)
    block_size: int = attribute("int64")
    accuracy_level: int = attribute("int64", 0)
    weight_prepacked: int = attribute("int64", 0)
    least = 3

    def forward(self, a: Any, b: Any, scales: Any, zero: Any = None, groups: Any = None, bias: Any = None) -> Any:
        need(self.bits in (2, 4, 8), f"bits must be 2, 4 or 8, got {self.bits}")
        need(groups is None and not self.weight_prepacked, "g_idx and prepacked weights are not supported")
        need(not is_traced(b) and not is_traced(scales), "its weights must be constants", TraceError)
        blocks = -(-self.K // self.block_size)
        values = _unpacked(b.reshape(-1), self.bits)[: self.N * blocks * self.block_size]
        need(values.size == self.N * blocks * self.block_size, f"its weights have {values.size} values")
        values = values.reshape(self.N, blocks, self.block_size)
        if zero is None:
            offset: Any = _f(1 << (self.bits - 1))
        elif zero.dtype == np.uint8:
            each = -(-blocks * self.bits // 8)
            offset = _unpacked(zero.reshape(self.N, each), self.bits)[:, :blocks, None].astype(np.float32)
        else:
            offset = zero.reshape(self.N, blocks, 1).astype(np.float32)
        wide = (values.astype(np.float32) - offset) * scales.reshape(self.N, blocks, 1).astype(np.float32)
        w = wide.reshape(self.N, -1)[:, : self.K].T.astype(a.dtype)
        y = a @ np.ascontiguousarray(w)
        return y if bias is None else y + bias


def _unpacked(data: Any, bits: int) -> Any:
    """Numbers of a few bits each, the lowest bits of a byte first, along the last axis."""
    parts = [(data >> np.uint8(shift)) & np.uint8((1 << bits) - 1) for shift in range(0, 8, bits)]
    return np.stack(parts, -1).reshape(*data.shape[:-1], -1)
