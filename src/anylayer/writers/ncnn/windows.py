"""Lowerings to ncnn for operators that read windows: convolutions, pooling, LRN and Resize."""

from __future__ import annotations

from typing import Any

import numpy as np

from anylayer.graph import Op, Value
from anylayer.graph.facts import Window, per_channel, window_of
from anylayer.graph.operators import ARITHMETIC
from anylayer.network import Array, Shape
from anylayer.ops._interpolation import resized_axes
from anylayer.writers._target import present, require
from anylayer.writers.ncnn.builder import NcnnBuilder, NcnnLowering, float_weights, without_batch
from anylayer.writers.ncnn.data_movement import repeat_pixels

_RELU, _LEAKY = 1, 2


def _planes(b: NcnnBuilder, value: Value | None) -> tuple[str, Shape]:
    """Return the blob (channels, height, width) of a value (1, channels, height, width), and its shape."""
    value = present(value)
    shape = value.shape
    require(len(shape) == 4, f"an input of {len(shape)} axes, expected batch, channels, height and width")
    require(shape[0] == 1, f"batch {shape[0]}, expected 1")
    return b.blob_of_shape(value, tuple(shape[1:])), tuple(shape[1:])


def _constant(op: Op, i: int, what: str) -> Array:
    return np.asarray(present(op.constant(i), f"a computed {what}"), np.float32)


def _windows(op: Op) -> Window:
    return present(window_of(op), f"auto_pad={op['auto_pad']}")


def _window_params(op: Op) -> dict[int, Any]:
    """Return the windows as parameters of ncnn's convolution layers."""
    (kh, kw), (sh, sw), (dh, dw), (top, left), (bottom, right) = _windows(op)
    return {1: kw, 11: kh, 2: dw, 12: dh, 3: sw, 13: sh, 4: left, 15: right, 14: top, 16: bottom}


def _conv(b: NcnnBuilder, op: Op) -> list[str]:
    x, _ = _planes(b, op.inputs[0])
    weights = _constant(op, 1, "kernel")
    group, channels = int(op["group"]), weights.shape[0]
    weights, bias, activation, last = _fuse_consumers(b, op, weights, 0)
    name = "Convolution" if group == 1 else "ConvolutionDepthWise"
    return _set_result(
        b, op, last, _convolution(b, name, x, last, channels, group, weights, bias, _window_params(op), activation)
    )


def _conv_transpose(b: NcnnBuilder, op: Op) -> list[str]:
    """Add a Deconvolution, with its weights in the order (outputs, inputs, height, width)."""
    x, _ = _planes(b, op.inputs[0])
    weights = _constant(op, 1, "kernel")
    group = int(op["group"])
    inputs, each, *kernel = weights.shape
    require("output_shape" not in op.attrs, "output_shape")
    weights = weights.reshape(group, inputs // group, each, *kernel).swapaxes(1, 2)
    weights = weights.reshape(group * each, inputs // group, *kernel)
    weights, bias, activation, last = _fuse_consumers(b, op, weights, 0)
    name = "Deconvolution" if group == 1 else "DeconvolutionDepthWise"
    extra = op["output_padding"] or [0, 0]
    params = {**_window_params(op), 18: int(extra[1]), 19: int(extra[0])}
    return _set_result(
        b, op, last, _convolution(b, name, x, last, group * each, group, weights, bias, params, activation)
    )


def _convolution(
    b: NcnnBuilder,
    name: str,
    x: str,
    out: Value,
    channels: int,
    group: int,
    weights: Array,
    bias: Array | None,
    params: dict[int, Any],
    activation: dict[int, Any],
) -> str:
    params = {0: channels, **params, 5: int(bias is not None), 6: weights.size, **activation}
    if group > 1:
        params[7] = group
    data = float_weights(weights) if bias is None else [*float_weights(weights), bias]
    return b.add(name, [x], tuple(out.shape[1:]), params, data)


def _set_result(b: NcnnBuilder, op: Op, last: Value, blob: str) -> list[str]:
    """Set the blob of `last`, the output of the last fused operator. Return the result of the lowering of `op`."""
    b.blobs[last] = blob
    return [blob] if last is op.outputs[0] else [""]


def _fuse_consumers(
    b: NcnnBuilder, op: Op, weights: Array, axis: int
) -> tuple[Array, Array | None, dict[int, Any], Value]:
    """Fuse the only consumers of a convolution into it: scales and shifts by constants per channel, then a ReLU.

    Return the new weights, bias and activation parameters, and the value that the convolution then computes.
    """
    bias = None if op.input(2) is None else _constant(op, 2, "bias")
    out, channels = op.outputs[0], weights.shape[axis]
    while (consumer := b.consumers.only(out)) is not None:
        if consumer.op in ("Relu", "LeakyRelu"):
            b.fused.add(consumer)
            is_relu = consumer.op == "Relu"
            activation = {9: _RELU} if is_relu else {9: _LEAKY, 10: [float(consumer["alpha"])]}
            return weights, bias, activation, consumer.outputs[0]
        constant = _by_channel(consumer, out, channels)
        if constant is None:
            break
        if consumer.op in ("Mul", "Div"):
            factor = constant if consumer.op == "Mul" else 1 / constant
            weights = weights * factor.reshape(-1, *(1,) * (weights.ndim - 1))
            bias = None if bias is None else bias * factor
        else:
            shift = constant if consumer.op == "Add" else -constant
            bias = shift if bias is None else bias + shift
        b.fused.add(consumer)
        out = consumer.outputs[0]
    return weights, bias, {}, out


def _by_channel(op: Op, out: Value, channels: int) -> Array | None:
    """Return the constants per channel by which `op` scales or shifts `out`; None if it does something else."""
    if op not in ARITHMETIC or op.outputs[0].shape != out.shape or len(op.inputs) != 2:
        return None
    left, right = op.inputs
    other = right if left is out else left if op.op in ("Mul", "Add") else None
    if other is None or other is out:
        return None
    constant = per_channel(other, (1, channels, 1, 1))
    if constant is None or not np.isfinite(constant).all() or (op.op == "Div" and not constant.all()):
        return None
    return constant.astype(np.float32)


def _pool(b: NcnnBuilder, op: Op) -> list[str]:
    """Add a Pooling of maps."""
    x, (channels, height, width) = _planes(b, op.inputs[0])
    kernel, strides, dilations, (top, left), (bottom, right) = _windows(op)
    require(len(op.outputs) == 1, "the indices of the maxima")
    require(set(dilations) == {1}, f"dilations {dilations}")
    require(not op["ceil_mode"], "ceil_mode")
    kind = int(op.op == "AveragePool")
    pads = (top, left, bottom, right)
    if kernel == [height, width] and not any(pads):
        return [b.add("Pooling", [x], (channels,), {0: kind, 4: 1})]
    params = {
        0: kind,
        1: kernel[1],
        11: kernel[0],
        2: strides[1],
        12: strides[0],
        3: left,
        14: right,
        13: top,
        15: bottom,
        5: 1,
        6: int(op.op == "AveragePool" and op["count_include_pad"]),
    }
    return [b.add("Pooling", [x], tuple(op.outputs[0].shape[1:]), params)]


def _global_pool(b: NcnnBuilder, op: Op) -> list[str]:
    x, (channels, _, _) = _planes(b, op.inputs[0])
    return [b.add("Pooling", [x], (channels,), {0: 1, 4: 1})]


def _resize(b: NcnnBuilder, op: Op) -> list[str]:
    """Add an Interp for linear interpolation, or repeat pixels. corrections.ncnn replaces other rules."""
    require(resized_axes(op) is not None, "scales that do not give whole sizes: ncnn derives them from the sizes")
    x, (channels, height, width) = _planes(b, op.inputs[0])
    out = without_batch(op.outputs[0].shape)
    require(out[0] == channels and len(out) == 3, "resized channels")
    if op["mode"] == "nearest":
        return [repeat_pixels(b, present(op.inputs[0]), (out[1] // height, out[2] // width))]
    corners = op["coordinate_transformation_mode"] == "align_corners"
    return [b.add("Interp", [x], out, {0: 2, 3: out[1], 4: out[2], 6: int(corners)})]


def _grid_sample(b: NcnnBuilder, op: Op) -> list[str]:
    """Add a GridSample. ncnn rounds and reflects by other rules, and interpolates cubically by other weights."""
    require(op["mode"] == "bilinear", f"mode={op['mode']}, expected bilinear")
    require(op["padding_mode"] != "reflection", "padding_mode=reflection: ncnn reflects far positions once")
    x, (channels, _, _) = _planes(b, op.inputs[0])
    grid = b.blob_of_shape(present(op.inputs[1]), without_batch(present(op.inputs[1]).shape))
    padding = 1 + (op["padding_mode"] == "border")
    params = {0: 1, 1: padding, 2: int(op["align_corners"])}
    return [b.add("GridSample", [x, grid], (channels, *op.outputs[0].shape[2:]), params)]


def _lrn(b: NcnnBuilder, op: Op) -> list[str]:
    x, shape = _planes(b, op.inputs[0])
    size, alpha, beta, bias = (op[name] for name in ("size", "alpha", "beta", "bias"))
    require(size % 2 == 1, f"size={size}, expected an odd number")
    return [b.add("LRN", [x], shape, {0: 0, 1: int(size), 2: float(alpha), 3: float(beta), 4: float(bias)})]


WINDOWS: dict[str, NcnnLowering] = {
    "Conv": _conv,
    "ConvTranspose": _conv_transpose,
    "MaxPool": _pool,
    "AveragePool": _pool,
    "GlobalAveragePool": _global_pool,
    "GridSample": _grid_sample,
    "LRN": _lrn,
    "Resize": _resize,
}
