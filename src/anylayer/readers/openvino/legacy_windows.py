"""Layers of IR v2 to v7 that slide a window: convolution, deconvolution and pooling, translated to Caffe's layers.

Caffe pads both sides of an axis equally. If the file pads them differently, the Caffe layer pads more, at the
beginning by whole strides, and the additional windows are sliced off its output. A deconvolution, whose pads crop
its output, crops less, and the rest is sliced off.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from anylayer.errors import LayerError, need
from anylayer.layer.arguments import extent, pooled_sizes, same_pads
from anylayer.network import Array
from anylayer.readers.openvino.legacy_layer import LegacyLayer

_MAX_FACTORS = 1 << 26
"""Cells of an average pooling that excludes its padding: the factors of all cells are computed."""


class LegacyWindows:
    """The geometry of a layer's windows: lists with one number per spatial axis.

    `size` and `out` are the spatial sizes of input and output, `begin` and `end` the pads. Raise LayerError for
    attributes that do not describe windows.
    """

    def __init__(self, layer: LegacyLayer, kernel: Sequence[int] | None = None) -> None:
        shape = layer.shape()
        count = len(shape) - 2
        need(count >= 1, f"its input must have shape (N, C, ...), got {shape}")
        self.size = shape[2:]
        self.out = layer.out_shape()[2:]
        need(len(self.out) == count, f"the output's shape {layer.out_shape()} does not fit the input's, {shape}")
        self.kernel = list(kernel) if kernel else layer.per_axis("kernel", "kernel", count, 0)
        self.stride = [max(s, 1) for s in layer.per_axis("strides", "stride", count, 1)]
        self.dilation = [max(d, 1) for d in layer.per_axis("dilations", "dilation", count, 1)]
        self.begin = layer.per_axis("pads_begin", "pad", count, 0)
        ends = [layer.integer(name, default=-1) for name in ("pad-b", "pad-r")][2 - min(count, 2) :]
        stated = layer.integers("pads_end")
        self.end = stated or [b if e < 0 else e for b, e in zip(self.begin, [*ends, *[-1] * count])]
        need(len(self.end) == count, f"'pads_end' must have {count} numbers, got {self.end}")
        layer.value("stride")  # in version 2 it has batch and channels too; stride-x and stride-y state the same
        need(min(self.kernel) > 0, f"the kernel's sizes must be positive, got {self.kernel}")
        need(min([*self.begin, *self.end]) >= 0, f"pads must not be negative, got {self.begin} and {self.end}")
        self._set_auto_pads(layer.word("auto_pad", default="explicit").lower())

    @property
    def extent(self) -> list[int]:
        """Return the number of input elements that a window spans on each axis, with the gaps of dilation."""
        return [extent(k, d) for k, d in zip(self.kernel, self.dilation)]

    def _set_auto_pads(self, mode: str) -> None:
        if mode == "valid":
            self.begin = self.end = [0] * len(self.kernel)
        elif mode in ("same_upper", "same_lower"):
            pairs = same_pads(self.size, self.extent, self.stride, upper=mode == "same_upper")
            self.begin, self.end = [begin for begin, _ in pairs], [end for _, end in pairs]
        else:
            need(mode in ("explicit", "notset", ""), f"auto_pad '{mode}' is unknown")

    def symmetric_pads(self) -> tuple[list[int], list[int]]:
        """Return one pad for both sides of each axis, and the number of windows that it adds at the beginning."""
        pads, added = [], []
        for begin, end, stride in zip(self.begin, self.end, self.stride):
            more = max(0, -(-(end - begin) // stride))
            pads.append(begin + more * stride)
            added.append(more)
        return pads, added


def slice_output(
    layer: LegacyLayer, value: str, shape: Sequence[int], begins: Sequence[int], sizes: Sequence[int]
) -> None:
    """Add Slice nodes that make the layer's output from `value`.

    `shape` is the shape of `value`, `sizes` that of the output, and `begins` the index of the output's first
    element on each axis.
    """
    sliced = [axis for axis, n in enumerate(shape) if n != sizes[axis]]
    if not sliced:
        layer.add("Split", inputs=[value], name="cut")
        return
    for axis in sliced:
        begin, stop = begins[axis], begins[axis] + sizes[axis]
        inside = 0 <= begin < stop <= shape[axis]
        need(inside, f"elements {begin} to {stop} of axis {axis} do not exist in a size of {shape[axis]}")
        points = [p for p in (begin, stop) if 0 < p < shape[axis]]
        names = [layer.inner_name(f"cut{axis}_{i}") for i in range(len(points) + 1)]
        place = 1 if begin else 0
        if axis == sliced[-1]:
            names[place] = layer.outputs[0]
        params = {"slice_param": {"axis": axis, "slice_point": points}}
        layer.add("Slice", params, inputs=[value], outputs=names, name=f"cut{axis}")
        value = names[place]


def parameter_params(shape: Sequence[int]) -> dict[str, Any]:
    """Return the params of a Parameter layer, whose output is its blob of the given shape."""
    return {"parameter_param": {"shape": {"dim": list(shape)}}}


def convolution(layer: LegacyLayer) -> None:
    """Translate Convolution. Kernels have shape (outputs, channels / group, *kernel)."""
    windows = LegacyWindows(layer)
    pads, added = windows.symmetric_pads()
    counts = [(n + 2 * p - e) // s + 1 for n, p, e, s in zip(windows.size, pads, windows.extent, windows.stride)]
    exact = [
        (n + b + t - e) // s + 1
        for n, b, t, e, s in zip(windows.size, windows.begin, windows.end, windows.extent, windows.stride)
    ]
    _add_sliced(layer, "Convolution", pads, windows, (counts, added, exact))


def deconvolution(layer: LegacyLayer) -> None:
    """Translate Deconvolution. Kernels have shape (channels, outputs / group, *kernel)."""
    windows = LegacyWindows(layer)
    pads = [min(b, e) for b, e in zip(windows.begin, windows.end)]
    full = [s * (n - 1) + e for n, s, e in zip(windows.size, windows.stride, windows.extent)]
    counts = [f - 2 * p for f, p in zip(full, pads)]
    exact = [f - b - e for f, b, e in zip(full, windows.begin, windows.end)]
    begins = [b - p for b, p in zip(windows.begin, pads)]
    _add_sliced(layer, "Deconvolution", pads, windows, (counts, begins, exact))


def _add_sliced(
    layer: LegacyLayer,
    type_: str,
    pads: list[int],
    windows: LegacyWindows,
    sizes: tuple[list[int], list[int], list[int]],
) -> None:
    """Add a convolution or deconvolution, and slice its output if it is larger than the layer's.

    `sizes` are the spatial sizes of the Caffe layer's output, the indices of the first elements to keep, and the
    spatial sizes of the layer's output.
    """
    counts, begins, exact = sizes
    outputs, group, channels = layer.integer("output"), layer.integer("group", default=1), layer.shape()[1]
    first, second = (channels, outputs) if type_ == "Deconvolution" else (outputs, channels)
    need(group > 0 and second % group == 0, f"group={group} does not divide {second} channels")
    blobs = [
        layer.weights((first, second // group, *windows.kernel)),
        layer.weights((outputs,), "biases", optional=True),
    ]
    params = {
        "convolution_param": {
            "num_output": outputs,
            "kernel_size": windows.kernel,
            "stride": windows.stride,
            "pad": pads,
            "dilation": windows.dilation,
            "group": group,
            "bias_term": int(blobs[1] is not None or not layer.blobs),
        }
    }
    out = list(windows.out)
    need(exact == out, f"its windows make an output of {exact}, but the file states {out}")
    if counts == exact:
        layer.add(type_, params, blobs=blobs)
        return
    whole = layer.inner_name("whole")
    layer.add(type_, params, outputs=[whole], blobs=blobs, name="whole")
    batch = layer.out_shape()[0]
    slice_output(layer, whole, (batch, outputs, *counts), (0, 0, *begins), (batch, outputs, *exact))


def pooling(layer: LegacyLayer) -> None:
    """Translate Pooling. The output port shows whether the number of windows is rounded up or down.

    An average that excludes the padding is the average with padding, multiplied by a constant array.
    """
    windows = _pooling_windows(layer)
    method = layer.word("pool-method", "pool", default="max").lower()
    need(method in ("max", "avg", "ave"), f"pool-method must be max or avg, got '{method}'")
    excludes_pad = layer.flag("exclude-pad", "exclude_pad") and method != "max"
    pads, added = windows.symmetric_pads()
    need(
        all(pad < kernel for pad, kernel in zip(pads, windows.kernel)),
        f"pads {windows.begin} and {windows.end} are too large for kernel {windows.kernel}",
    )
    need(
        method == "max" or windows.begin == windows.end,
        f"average pooling with different pads, {windows.begin} and {windows.end}, is not supported",
    )
    round_mode, counts = _rounding(windows, pads, added)
    params = _pooling_params(windows, method, pads, round_mode)
    whole = counts == list(windows.out) and not any(added)
    alone = whole and not excludes_pad
    value = layer.outputs[0] if alone else layer.inner_name("whole")
    layer.add("Pooling", params, outputs=[value], name="" if alone else "whole")
    n, c = layer.out_shape()[:2]
    if not whole:
        slice_output(layer, value, (n, c, *counts), (0, 0, *added), (n, c, *windows.out))
    elif excludes_pad:
        factor = np.broadcast_to(_padding_correction(windows, pads), layer.out_shape())
        share = layer.inner_name("share")
        layer.add(
            "Parameter", parameter_params(factor.shape), inputs=[], outputs=[share], blobs=[factor], name="share"
        )
        product = {"eltwise_param": {"operation": "PROD"}}
        layer.add("Eltwise", product, inputs=[value, share], name="means")


def _pooling_params(windows: LegacyWindows, method: str, pads: list[int], round_mode: str) -> dict[str, Any]:
    return {
        "pooling_param": {
            "pool": "MAX" if method == "max" else "AVE",
            "kernel_h": windows.kernel[0],
            "kernel_w": windows.kernel[1],
            "stride_h": windows.stride[0],
            "stride_w": windows.stride[1],
            "pad_h": pads[0],
            "pad_w": pads[1],
            "round_mode": round_mode,
        }
    }


def _pooling_windows(layer: LegacyLayer) -> LegacyWindows:
    """Return the windows of a Pooling layer. Some versions state one number for both axes."""
    layer.value("rounding-type", "rounding_type")
    need(len(layer.shape()) == 4, f"its input must have shape (N, C, H, W), got {layer.shape()}")
    both = layer.integer("kernel_size", default=0)
    windows = LegacyWindows(layer, [both] * 2 if both else None)
    if both:
        windows.stride = (
            [layer.integer("stride", default=1)] * 2 if "stride" in layer.attributes else windows.stride
        )
        windows.begin = windows.end = [layer.integer("pad", default=0)] * 2
    return windows


def _rounding(windows: LegacyWindows, pads: list[int], added: list[int]) -> tuple[str, list[int]]:
    """Return Caffe's round_mode with which the layer has at least the file's windows, and the numbers of windows.

    Raise LayerError if the output's size is possible with neither mode.
    """
    expected = [o + a for o, a in zip(windows.out, added)]
    candidates: list[list[int]] = []
    for mode in ("FLOOR", "CEIL"):
        counts = pooled_sizes(windows.size, windows.kernel, windows.stride, pads, ceil=mode == "CEIL")
        if counts == expected:
            return mode, counts
        candidates.append(counts)
    for mode, counts in zip(("FLOOR", "CEIL"), candidates):
        if any(added) and all(c >= w for c, w in zip(counts, expected)):
            return mode, counts
    raise LayerError(
        f"the file states an output of {list(windows.out)}, but its windows make {candidates[0]} (rounded down) "
        f"or {candidates[1]} (rounded up)"
    )


def _padding_correction(windows: LegacyWindows, pads: list[int]) -> Array:
    """Return the factors (H, W) that turn averages that count the padding into averages that exclude it."""
    count = math.prod(windows.out)
    need(count <= _MAX_FACTORS, f"its output has {count} cells; the limit is {_MAX_FACTORS}")
    factors = []
    for n, k, s, p, o in zip(windows.size, windows.kernel, windows.stride, pads, windows.out):
        starts = np.arange(o) * s - p
        inside = np.minimum(starts + k, n) - np.maximum(starts, 0)
        counted = np.minimum(starts + k, n + p) - starts
        factors.append(counted / np.maximum(inside, 1))
    return np.multiply.outer(*factors).astype(np.float32)
