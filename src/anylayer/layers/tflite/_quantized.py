"""Quantized values: integers q that stand for the real numbers (q - zero point) * scale.

TFLite computes in integers. Here operators compute on the real numbers, as ONNX files with QuantizeLinear do, and
follow TFLite where the results would differ by more than one step.
"""

from __future__ import annotations

import functools
import math

import numpy as np

from anylayer import ops
from anylayer.layer import Array, Layer, need
from anylayer.layer.arguments import integers
from anylayer.layers._arrays import round_half_away
from anylayer.network import Function, Steps

_NARROW = ("int8", "uint8", "int16")
_ON_INTEGERS = """
ARG_MAX ARG_MIN BATCH_TO_SPACE_ND BROADCAST_TO CAST CONSTANT DEPTH_TO_SPACE EXPAND_DIMS FILL GATHER GATHER_ND
IF MAXIMUM MINIMUM MIRROR_PAD PACK PAD PADV2 RANK READ_VARIABLE REDUCE_MAX REDUCE_MIN RESHAPE
RESIZE_NEAREST_NEIGHBOR REVERSE_SEQUENCE REVERSE_V2 SELECT SELECT_V2 SHAPE SLICE SPACE_TO_DEPTH SPLIT SPLIT_V
SQUEEZE STABLEHLO_COMPOSITE STRIDED_SLICE TILE TOPK_V2 TRANSPOSE UNPACK
"""
ON_INTEGERS = frozenset(_ON_INTEGERS.split())
"""Operators that move, select or compare the integers of quantized inputs."""


def on_reals(function: Function) -> Function:
    """Return a `forward` that computes on the real numbers of quantized values, and rounds its results."""

    @functools.wraps(function)
    def forward(self: Layer, *arrays: Array) -> object:
        if self.settings.get("dtypes") == ["complex64"] and self.type in ON_INTEGERS:
            parts = [function(self, arrays[0][..., i], *arrays[1:]) for i in (0, 1)]
            return np.stack(parts, axis=-1)
        if self.type in ON_INTEGERS or (self.type == "CONCATENATION" and _has_one_scale(self)):
            return function(self, *arrays)
        dtypes = self.settings.get("dtypes", ())
        nothing = [[None] * len(arrays), [None] * len(dtypes)]
        inputs, outputs, *_ = self.settings.get("steps", nothing)
        results = function(self, *map(_to_reals, arrays, inputs))
        if not isinstance(results, list | tuple):
            return _to_integers(results, *outputs, *dtypes) if dtypes else results
        return [*map(_to_integers, results, outputs, dtypes)]

    return forward


def _has_one_scale(self: Layer) -> bool:
    """Return whether all inputs and outputs have the same scale and zero point."""
    inputs, outputs, *_ = self.settings.get("steps", [[], []])
    return len({None if s is None else (s[0].tobytes(), s[1].tobytes()) for s in (*inputs, *outputs)}) <= 1


def _to_reals(x: Array | None, steps: Steps | None) -> Array | None:
    if x is None or steps is None:
        need(x is None or x.dtype.name not in _NARROW, f"an input of {x is not None and x.dtype} has no scale")
        return x
    scale, zero, axis = steps
    if x.dtype == np.int64:  # a bias beside activations of int16
        return x.astype(np.float32) * scale
    return ops.dequantize_linear(x, scale, zero, axis=axis)


def _to_integers(y: Array, steps: Steps | None, dtype: str) -> Array:
    if steps is None:
        need(dtype not in _NARROW, f"an output of {dtype} has no scale")
        return y
    scale, zero, axis = steps
    if dtype == "int32":
        return np.rint(y / scale).astype(np.int32)
    return ops.quantize_linear(y, scale, zero, axis=axis)


def comparison(function: Function) -> Function:
    """Return a comparison, before which TFLite rounds the real numbers of quantized values to steps of 1 / 256."""

    def compare(a: Array, b: Array, *, input_steps: Steps | None) -> Array:
        both = [np.rint(x * np.float32(256)) for x in (a, b)] if input_steps else [a, b]
        return function(*both)

    return compare


def round_rows(x: Array, axes: int | tuple[int, ...], asymmetric: bool) -> Array:
    """Round real numbers as TFLite does where the weights beside them are quantized.

    axes: those of one row, whose range has 255 steps: from the least to the largest number and 0 if asymmetric,
    else of both signs alike. Source: tensorflow/lite/kernels/internal/reference/portable_tensor_utils.cc.
    """
    zero = np.float32(0)
    if asymmetric:
        low = np.minimum(x.min(axis=axes, keepdims=True), zero)
        scale = (np.maximum(x.max(axis=axes, keepdims=True), zero) - low) / np.float32(255)
    else:
        low, scale = zero, np.abs(x).max(axis=axes, keepdims=True) / np.float32(127)
    scale = np.where(scale == 0, np.float32(1), scale)
    offset = np.rint(low / scale)
    return (np.rint(x / scale - offset) + offset) * scale


def bilinear(function: Function) -> Function:
    """Return a bilinear resize of images (N, H, W, C). TFLite computes those of int8 and int16 with positions and
    weights in steps of 1 / 1024.

    Source: tensorflow/lite/kernels/internal/reference/resize_bilinear.h, ResizeBilinearInteger.
    """

    def resize(x: Array, size: Array, *, dtypes: list[str], **flags: bool) -> Array:
        y: Array
        if dtypes[0] not in ("int8", "int16"):
            y = function(x, size, **flags)
            return y
        n, h, w, c = x.shape
        plane = integers(size, "size")
        need(len(plane) == 2 and min(plane) > 0, f"size must be a height and a width of 1 or more, got {plane}")
        rows, columns = (_weights(old, new, **flags) for old, new in zip((h, w), plane))
        y = columns @ (rows @ x.reshape(n, h, w * c)).reshape(n, plane[0], w, c)
        return y

    return resize


def _weights(old: int, new: int, align_corners: bool, half_pixel_centers: bool) -> Array:
    """Return the matrix (new, old) that interpolates along an axis."""
    need(old * new < 1 << 26, f"a resize of {old} cells to {new} needs more weights than the supported {1 << 26}")
    last = int(align_corners and new > 1)
    step = (1024 * (old - last) + (new - last) // 2) // (new - last)
    place = np.arange(new) * step + (step // 2 - 512 if half_pixel_centers else 0)
    low = np.minimum(np.maximum(place // 1024, 0), old - 1)
    high = np.minimum(np.maximum((place + 1023) // 1024, 0), old - 1)
    share = (place - 1024 * low).astype(np.float32) / np.float32(1024)
    cells = np.arange(old)
    return (cells == low[:, None]) * (1 - share)[:, None] + (cells == high[:, None]) * share[:, None]


def in_16_bits(by_table: Function) -> Function:
    """Return what makes of a function one that computes arrays of int16 by TFLite's table, from their scale."""

    def around(function: Function) -> Function:
        def compute(x: Array, *, dtypes: list[str], input_steps: Steps | None, **options: float) -> Array:
            y: Array
            if input_steps is not None and dtypes[0] == "int16":
                y = by_table(x, float(input_steps[0].max()), **options)
            else:
                y = function(x, **options)
            return y

        return compute

    return around


def _interpolate(table: Array, place: Array, size: int) -> Array:
    """Return the values of a table, interpolated at whole steps, of which there are `size` between two values."""
    index = np.floor(place / np.float32(size))
    low, high = (ops.gather(table.astype(np.float32), index.astype(np.int32) + i) for i in (0, 1))
    return low + (high - low) * (place - index * np.float32(size)) / np.float32(size)


def sigmoid_by_table(x: Array, scale: float, size: int = 512) -> Array:
    """Compute 1 / (1 + exp(-x)) from its values at multiples of 1 / 24, between which x has `size` steps.

    Source: tensorflow/lite/kernels/internal/reference/integer_ops/logistic.h; LogisticPrepare.
    """
    power = 2.0 ** max(0, math.ceil(math.log2(16383.5 / (scale * 12288))))
    multiplier = math.floor(scale * 12288 * power) / (scale * power)
    place = np.minimum(np.rint(np.abs(x) * np.float32(multiplier)), np.float32(255 * size))
    exact = 65536 / (1 + np.exp(-np.arange(515) / 48))
    errors = (exact[:-2:2] + exact[2::2]) / 2 - exact[1::2]
    table = np.append(np.round(exact[:-2:2] - errors / 2)[:255], (65535, 65535))
    y = _interpolate(table, place, size) / np.float32(65536)
    return np.where(x < 0, np.float32(1) - y, y)


def tanh_by_table(x: Array, scale: float) -> Array:
    """Compute tanh(x) as 2 / (1 + exp(-2x)) - 1."""
    return np.float32(2) * sigmoid_by_table(x, scale, 256) - np.float32(1)


def softmax_by_table(x: Array, scale: float, beta: float) -> Array:
    """Compute exp(beta * x), divided by its sum over the last axis, from 513 values of the exponential.

    Source: tensorflow/lite/kernels/internal/reference/softmax.h, SoftmaxInt16; common.h, LUTPopulate.
    """
    exact = np.exp(np.linspace(-10, 0, 1025)) * 32767.5
    whole = round_half_away(exact[::2])
    errors = round_half_away((exact[2::2] + whole[:-1]) / 2) - round_half_away(exact[1::2])
    table = np.minimum(np.append(whole[:-1] - round_half_away(errors / 2), whole[-1]), 32767)
    steps = np.rint((x - x.max(axis=-1, keepdims=True)) * np.float32(beta * 6553.5)) + np.float32(65535)
    y = np.rint(_interpolate(table, np.maximum(steps, np.float32(0)), 128))
    return y / y.sum(axis=-1, keepdims=True)
