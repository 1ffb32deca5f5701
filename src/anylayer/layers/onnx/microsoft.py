"""Quantized operators of the domain com.microsoft, as ONNX Runtime's tools write them.

Each is traced as the standard operators that it stands for. Source: ONNX Runtime, docs/ContribOperators.md.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np

from anylayer import ops
from anylayer.errors import need
from anylayer.layer import Layer, attribute, layer
from anylayer.layer.arguments import axis_of, channels_first, constant, converted, restored
from anylayer.layers._table import operators, row
from anylayer.layers.onnx._call import OpCall
from anylayer.layers.onnx._record import run
from anylayer.layers.onnx._windows import average_pool, explicit
from anylayer.libraries.onnx import TensorProto, helper
from anylayer.network import Array, Function, Node
from anylayer.ops import dequantize_linear as dequantize
from anylayer.ops import quantize_linear as quantize


class _Quantized(Layer):
    """An operator on quantized numbers, with at least `least` inputs."""

    message = "attribute"
    least: ClassVar[int] = 5
    """The smallest number of inputs."""

    def prepare(self, node: Node, dialect: str | None) -> None:
        count = len(node.inputs)
        need(count >= self.least, f"takes at least {self.least} inputs, got {count}")
        super().prepare(node, dialect)


def _of_two(function: Callable[[Any, Any], Any]) -> Callable[..., Array]:
    """Return a function of two quantized arrays, computed on real numbers and quantized again."""

    def compute(
        a: Array,
        a_scale: Array,
        a_zero: Array,
        b: Array,
        b_scale: Array,
        b_zero: Array,
        y_scale: Array,
        y_zero: Array | None = None,
    ) -> Array:
        y = function(dequantize(a, a_scale, a_zero), dequantize(b, b_scale, b_zero))
        return quantize(y, y_scale, y_zero, dtype=a.dtype)

    return compute


def _of_one(function: Function) -> Callable[..., Array]:
    """Return a function of a quantized array, computed on real numbers and quantized again."""

    def compute(
        x: Array, x_scale: Array, x_zero: Array, y_scale: Array, y_zero: Array | None = None, **fields: Any
    ) -> Array:
        return quantize(function(dequantize(x, x_scale, x_zero), **fields), y_scale, y_zero, dtype=x.dtype)

    return compute


def _where(which: Array, *quantized: Array) -> Array:
    return _of_two(lambda a, b: np.where(which, a, b))(*quantized)


def _concat(y_scale: Array, y_zero: Array, *quantized: Any, axis: int) -> Array:
    need(len(quantized) % 3 == 0, f"takes 2 inputs and then groups of 3, got {len(quantized) + 2} inputs")
    parts = [dequantize(*quantized[i : i + 3]) for i in range(0, len(quantized), 3)]
    return quantize(np.concatenate(parts, axis=axis), y_scale, y_zero, dtype=quantized[0].dtype)


def _softmax(x: Array, axis: int, opset: int) -> Array:
    rank = len(x.shape)
    axis = axis_of(axis, rank)
    if opset >= 13 or axis == rank - 1:
        return ops.softmax(x, axis=axis)
    rows = int(np.prod(x.shape[:axis], dtype=np.int64))
    return ops.softmax(x.reshape(rows, -1), axis=-1).reshape(x.shape)


def _global_mean(x: Array, channels_last: int) -> Array:
    rank = len(x.shape)
    need(rank > 2, f"takes an input (N, C, ...), got shape {tuple(x.shape)}")
    return x.mean(axis=tuple(range(1, rank - 1) if channels_last else range(2, rank)), keepdims=True)


def _average_pool(x: Array, channels_last: int, **window: Any) -> Array:
    data_format = "channels_last" if channels_last else "channels_first"
    x = channels_first(x, data_format)
    call = OpCall("AveragePool", 18, [x], {name: value or None for name, value in window.items()})
    explicit(call)
    return restored(average_pool(call, x), data_format)


_INTS, _ZERO = attribute("int64", (), repeated=True), attribute("int64", 0)
_BLOCKS = "scale and zero have one number, one per slice of `axis`, or one per block of block_size slices."

operators(
    _Quantized,
    "Source: ONNX Runtime, docs/ContribOperators.md, {}.",
    {
        "com.microsoft.DequantizeLinear": row("Compute (x - zero) * scale, for integers of 4 bits and more.",
            dequantize,
            details=f"The output has the shape of x. {_BLOCKS}",
            axis=attribute("int64", 1), block_size=_ZERO),
        "com.microsoft.QuantizeLinear": row("Compute round(x / scale) + zero, for integers of 4 bits and more.",
            quantize,
            details=f"The output has the shape of x and the dtype of zero. {_BLOCKS}",
            body={"saturate": attribute("int64", 1)}, axis=attribute("int64", 1), block_size=_ZERO),
    },
    least=2,
)  # fmt: skip
operators(
    _Quantized,
    "Each quantized array q is followed by its scale and its zero point, and stands for (q - zero) * scale.\n"
    "    Source: ONNX Runtime, docs/ContribOperators.md, {}.",
    {
        "com.microsoft.QLinearAdd": row("Compute a + b of two quantized inputs whose shapes broadcast.",
            _of_two(np.add), body={"least": 7}),
        "com.microsoft.QLinearMul": row("Compute a * b of two quantized inputs whose shapes broadcast.",
            _of_two(np.multiply), body={"least": 7}),
        "com.microsoft.QLinearWhere": row("Select elements of two quantized inputs by a boolean condition, as "
            "numpy.where. The shapes broadcast.", _where, body={"least": 8}),
        "com.microsoft.QLinearConcat": row("Concatenate quantized inputs along `axis`.", _concat,
            details="The first two inputs are scale and zero point of the output.",
            body={"least": 5}, axis=attribute("int64")),
        "com.microsoft.QLinearSigmoid": row("Compute 1 / (1 + exp(-x)) for each element of a quantized input.",
            _of_one(ops.sigmoid)),
        "com.microsoft.QLinearLeakyRelu": row("Compute x where x > 0, else alpha * x, for each element of a "
            "quantized input.", _of_one(ops.leaky_relu), alpha=attribute("float", 0.01)),
        "com.microsoft.QLinearSoftmax": row("Compute the softmax of a quantized input along `axis`.",
            _of_one(_softmax), details="Before operator set 13, all axes from `axis` on are treated as one.",
            axis=attribute("int64", -1), opset=attribute("int64")),
        "com.microsoft.QLinearGlobalAveragePool": row("Compute the mean of each channel of a quantized input.",
            _of_one(_global_mean),
            details="(N, C, ...) to (N, C, 1, ...), or (N, ..., C) to (N, 1, ..., C) with channels_last.",
            channels_last=_ZERO),
        "com.microsoft.QLinearAveragePool": row("Compute the mean of each window of a quantized input.",
            _of_one(_average_pool),
            details="(N, C, ...) to (N, C, ...), or (N, ..., C) to (N, ..., C) with channels_last.",
            kernel_shape=attribute("int64", repeated=True), strides=_INTS, pads=_INTS,
            auto_pad=attribute("string", "NOTSET"), ceil_mode=_ZERO, count_include_pad=_ZERO, channels_last=_ZERO),
    },
    least=4,
)  # fmt: skip


# ----------------------------------------------------------------------------------------------------- products


def _to_float(
    a: Array, a_scale: Any, a_zero: Any, b: Array, b_scale: Any, b_zero: Any, bias: Array | None
) -> Array:
    """Return the product of quantized matrices in float32, plus a bias."""
    total = run("MatMulInteger", 18, [a, b, a_zero, b_zero], {})[0]
    one = b_scale.reshape(()) if b_scale.size == 1 else b_scale
    y = total.astype(np.float32) * (a_scale * one)
    return y if bias is None else y + bias


def _q_gemm(
    a: Array, a_scale: Array, a_zero: Array, b: Array, b_scale: Array, b_zero: Array, c: Array | None = None,
    y_scale: Array | None = None, y_zero: Array | None = None, *, alpha: float, transA: int, transB: int,
) -> Array:  # fmt: skip
    inputs = [dequantize(a, a_scale, a_zero), dequantize(b, b_scale, b_zero, axis=0 if transB else 1)]
    if c is not None:
        step = (np.float32(alpha) * a_scale.reshape(()) * b_scale).astype(np.float32)
        inputs.append(dequantize(c, step, axis=-1))
    y = run("Gemm", 18, inputs, {"alpha": alpha, "transA": transA, "transB": transB})[0]
    return y if y_scale is None else quantize(y, y_scale, y_zero, dtype=a.dtype)


def _matmul_to_float(
    a: Array, b: Array, a_scale: Array, b_scale: Array, a_zero: Any = None, b_zero: Any = None, bias: Any = None
) -> Array:
    return _to_float(a, a_scale.reshape(()), a_zero, b, b_scale, b_zero, bias)


def _dynamic_matmul(a: Array, b: Array, b_scale: Array, b_zero: Any = None, bias: Any = None) -> Array:
    x, scale, zero = run("DynamicQuantizeLinear", 18, [a], {}, 3)
    return _to_float(x, scale, zero, b, b_scale, b_zero, bias)


operators(
    _Quantized,
    "Source: ONNX Runtime, docs/ContribOperators.md, {}.",
    {
        "com.microsoft.QGemm": row(
            "Compute alpha * A @ B + C for quantized A and B, each optionally transposed.", _q_gemm,
            details="(M, K) and (K, N) to (M, N). C holds integers in steps of alpha * a_scale * b_scale. The "
            "output is quantized when it has a scale, else float32. Each quantized array q is followed by its "
            "scale and its zero point, and stands for (q - zero) * scale.",
            body={"least": 6}, alpha=attribute("float", 1.0), transA=_ZERO, transB=_ZERO),
        "com.microsoft.MatMulIntegerToFloat": row(
            "Compute the product of quantized matrices in float32, plus a bias.", _matmul_to_float,
            details="A (..., M, K) and B (..., K, N) to (..., M, N). A quantized q stands for (q - zero) * scale.",
            body={"least": 4}),
        "com.microsoft.DynamicQuantizeMatMul": row(
            "Quantize A by its own range, and compute its product with a quantized matrix, plus a bias.",
            _dynamic_matmul, details="A (..., M, K) float32 and B (K, N) quantized to (..., M, N) float32.",
            body={"least": 3}),
    },
)  # fmt: skip


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
        self, a: Array, b: Array, scales: Array, zero: Any = None, groups: Any = None, bias: Any = None
    ) -> Array:
        need(self.bits in (2, 4, 8), f"bits must be 2, 4 or 8, got {self.bits}")
        need(groups is None and not self.weight_prepacked, "g_idx and prepacked weights are not supported")
        has_real_zeros = zero is not None and zero.dtype != np.uint8
        number = TensorProto.UINT4 if self.bits <= 4 and not has_real_zeros else TensorProto.UINT8
        dtype = np.dtype(helper.tensor_dtype_to_np_dtype(number))
        values = converted(b, lambda data: self._integers(data).astype(dtype), "B")
        blocks = -(-self.K // self.block_size)
        factor = constant(scales, "scales").reshape(self.N, blocks).T
        if has_real_zeros:
            offset, block = zero.reshape(self.N, blocks).T, np.arange(self.K) // self.block_size
            w = (values.astype(np.float32) - offset[block].astype(np.float32)) * factor[block].astype(np.float32)
        else:
            offset = np.full((blocks, self.N), 1 << (self.bits - 1), dtype)
            if zero is not None:
                offset = converted(zero, lambda data: self._offsets(data, blocks).astype(dtype), "zero_points")
            w = dequantize(values, factor, offset, axis=0, block_size=self.block_size)
        y = a @ w.astype(a.dtype)
        return y if bias is None else y + bias

    def _integers(self, data: Array) -> Array:
        """Return the integers (K, N) of the packed weights."""
        count = self.N * -(-self.K // self.block_size) * self.block_size
        values = _unpack_bits(data.reshape(-1), self.bits)[:count]
        need(values.size == count, f"its weights must have {count} values, got {values.size}")
        return values.reshape(self.N, -1)[:, : self.K].T

    def _offsets(self, data: Array, blocks: int) -> Array:
        """Return the integers (blocks, N) of the packed zero points."""
        return _unpack_bits(data.reshape(self.N, -(-blocks * self.bits // 8)), self.bits)[:, :blocks].T


def _unpack_bits(data: Array, bits: int) -> Array:
    """Return integers of a few bits each, the lowest bits of a byte first, along the last axis."""
    parts = [(data >> np.uint8(shift)) & np.uint8((1 << bits) - 1) for shift in range(0, 8, bits)]
    return np.stack(parts, -1).reshape(*data.shape[:-1], -1)
