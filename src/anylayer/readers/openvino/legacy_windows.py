"""Layers of an old IR that move a window: convolutions and pools, in Caffe's terms.

Caffe pads both sides of an axis alike. Where the file does not, the map is padded by more, in whole strides, and
what the windows at both ends give is cut off again.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from anylayer.errors import need
from anylayer.network import Array
from anylayer.readers.openvino.legacy_layer import Legacy


class Windows:
    """The windows of a layer: one number a spatial axis each."""

    def __init__(self, layer: Legacy, kernel: Sequence[int] | None = None) -> None:
        shape = layer.shape()
        count = len(shape) - 2
        need(count >= 1, f"needs a map (N, C, ...), got shape {shape}")
        self.size = shape[2:]
        self.out = layer.out_shape()[2:]
        need(len(self.out) == count, f"the output's shape {layer.out_shape()} does not fit the input's, {shape}")
        self.kernel = list(kernel) if kernel else layer.along("kernel", "kernel", count, 0)
        self.stride = [max(s, 1) for s in layer.along("strides", "stride", count, 1)]
        self.dilation = [max(d, 1) for d in layer.along("dilations", "dilation", count, 1)]
        self.begin = layer.along("pads_begin", "pad", count, 0)
        ends = [layer.whole(name, default=-1) for name in ("pad-b", "pad-r")][2 - min(count, 2) :]
        given = layer.numbers("pads_end")
        self.end = given or [b if e < 0 else e for b, e in zip(self.begin, [*ends, *[-1] * count])]
        need(len(self.end) == count, f"'pads_end' must have {count} numbers, got {self.end}")
        layer.value("stride")  # of a batch and channels too, in version 2; stride-x and stride-y say the same
        need(min(self.kernel) > 0, f"the kernel's sizes must be positive, got {self.kernel}")
        need(min([*self.begin, *self.end]) >= 0, f"pads must not be negative, got {self.begin} and {self.end}")
        self._by_word(layer.word("auto_pad", default="explicit").lower())

    @property
    def extent(self) -> list[int]:
        """Cells from a window's first to its last, both included."""
        return [(k - 1) * d + 1 for k, d in zip(self.kernel, self.dilation)]

    def _by_word(self, word: str) -> None:
        if word == "valid":
            self.begin = self.end = [0] * len(self.kernel)
        elif word in ("same_upper", "same_lower"):
            begins, ends = [], []
            for n, e, s in zip(self.size, self.extent, self.stride):
                total = max((-(-n // s) - 1) * s + e - n, 0)
                small, large = total // 2, total - total // 2
                begins.append(small if word == "same_upper" else large)
                ends.append(large if word == "same_upper" else small)
            self.begin, self.end = begins, ends
        else:
            need(word in ("explicit", "notset", ""), f"auto_pad '{word}' is not known")

    def wider(self) -> tuple[list[int], list[int]]:
        """One pad for both sides of each axis, and how many windows at the beginning it adds."""
        pads, added = [], []
        for begin, end, stride in zip(self.begin, self.end, self.stride):
            more = max(0, -(-(end - begin) // stride))
            pads.append(begin + more * stride)
            added.append(more)
        return pads, added


def cut(layer: Legacy, value: str, shape: Sequence[int], begins: Sequence[int], wanted: Sequence[int]) -> None:
    """The layer's output: of a value of `shape`, `wanted` cells of each axis from `begins` on."""
    todo = [axis for axis, n in enumerate(shape) if n != wanted[axis]]
    if not todo:
        layer.add("Split", inputs=[value], name="cut")
        return
    for axis in todo:
        begin, stop = begins[axis], begins[axis] + wanted[axis]
        inside = 0 <= begin < stop <= shape[axis]
        need(inside, f"takes {begin} to {stop} of the {shape[axis]} cells of axis {axis}")
        points = [p for p in (begin, stop) if 0 < p < shape[axis]]
        names = [layer.between(f"cut{axis}_{i}") for i in range(len(points) + 1)]
        kept = 1 if begin else 0
        if axis == todo[-1]:
            names[kept] = layer.outputs[0]
        params = {"slice_param": {"axis": axis, "slice_point": points}}
        layer.add("Slice", params, inputs=[value], outputs=names, name=f"cut{axis}")
        value = names[kept]


def parameter(shape: Sequence[int]) -> dict[str, Any]:
    """The params of a layer that gives its blob of this shape."""
    return {"parameter_param": {"shape": {"dim": list(shape)}}}


def convolution(layer: Legacy) -> None:
    """Convolution."""
    windows = Windows(layer)
    outputs, group = layer.whole("output"), layer.whole("group", default=1)
    channels = layer.shape()[1]
    need(group > 0 and channels % group == 0, f"group={group} does not divide {channels} channels")
    kernels = layer.weights((outputs, channels // group, *windows.kernel))
    bias = layer.weights((outputs,), "biases", optional=True)
    pads, added = windows.wider()
    counts = [(n + 2 * p - e) // s + 1 for n, p, e, s in zip(windows.size, pads, windows.extent, windows.stride)]
    exact = [
        (n + b + t - e) // s + 1
        for n, b, t, e, s in zip(windows.size, windows.begin, windows.end, windows.extent, windows.stride)
    ]
    need(
        exact == list(windows.out),
        f"its windows make an output of {exact}, the file says {list(windows.out)}",
    )
    params = _params(windows, outputs, group, pads, bias is not None or not layer.blobs)
    if counts == exact:
        layer.add("Convolution", params, blobs=[kernels, bias])
        return
    whole = layer.between("whole")
    layer.add("Convolution", params, outputs=[whole], blobs=[kernels, bias], name="whole")
    batch = layer.out_shape()[0]
    cut(layer, whole, (batch, outputs, *counts), (0, 0, *added), (batch, outputs, *exact))


def deconvolution(layer: Legacy) -> None:
    """Deconvolution."""
    windows = Windows(layer)
    outputs, group = layer.whole("output"), layer.whole("group", default=1)
    channels = layer.shape()[1]
    need(group > 0 and outputs % group == 0, f"group={group} does not divide {outputs} channels")
    kernels = layer.weights((channels, outputs // group, *windows.kernel))
    bias = layer.weights((outputs,), "biases", optional=True)
    least = [min(b, e) for b, e in zip(windows.begin, windows.end)]
    reach = [s * (n - 1) + e for n, s, e in zip(windows.size, windows.stride, windows.extent)]
    counts = [r - 2 * p for r, p in zip(reach, least)]
    exact = [r - b - e for r, b, e in zip(reach, windows.begin, windows.end)]
    need(
        exact == list(windows.out),
        f"its windows make an output of {exact}, the file says {list(windows.out)}",
    )
    params = _params(windows, outputs, group, least, bias is not None or not layer.blobs)
    if counts == exact:
        layer.add("Deconvolution", params, blobs=[kernels, bias])
        return
    whole = layer.between("whole")
    layer.add("Deconvolution", params, outputs=[whole], blobs=[kernels, bias], name="whole")
    batch = layer.out_shape()[0]
    begins = [b - p for b, p in zip(windows.begin, least)]
    cut(layer, whole, (batch, outputs, *counts), (0, 0, *begins), (batch, outputs, *exact))


def _params(windows: Windows, outputs: int, group: int, pads: list[int], bias: bool) -> dict[str, Any]:
    return {
        "convolution_param": {
            "num_output": outputs,
            "kernel_size": windows.kernel,
            "stride": windows.stride,
            "pad": pads,
            "dilation": windows.dilation,
            "group": group,
            "bias_term": int(bias),
        }
    }


def pooling(layer: Legacy) -> None:
    """Pooling: its output's shape tells how the number of windows is rounded."""
    layer.value("rounding-type", "rounding_type")
    count = len(layer.shape()) - 2
    need(count == 2, f"needs a map (N, C, H, W), got shape {layer.shape()}")
    both = layer.whole("kernel_size", default=0)
    windows = Windows(layer, [both] * count if both else None)
    if both:
        windows.stride = [layer.whole("stride", default=1)] * 2 if "stride" in layer.attributes else windows.stride
        windows.begin = windows.end = [layer.whole("pad", default=0)] * 2
    method = layer.word("pool-method", "pool", default="max").lower()
    need(method in ("max", "avg", "ave"), f"pool-method is max or avg, got '{method}'")
    excluded = layer.flag("exclude-pad", "exclude_pad") and method != "max"
    pads, added = windows.wider()
    for pad, kernel in zip(pads, windows.kernel):
        need(
            pad < kernel,
            f"pads {windows.begin} and {windows.end} are too wide for a kernel of {windows.kernel}",
        )
    need(
        method == "max" or windows.begin == windows.end,
        f"means over pads that differ, {windows.begin} and {windows.end}, are not supported",
    )
    counted = _rounding(windows, pads, added)
    params = {
        "pool": "MAX" if method == "max" else "AVE",
        "kernel_h": windows.kernel[0],
        "kernel_w": windows.kernel[1],
        "stride_h": windows.stride[0],
        "stride_w": windows.stride[1],
        "pad_h": pads[0],
        "pad_w": pads[1],
        "round_mode": counted[0],
    }
    whole = list(counted[1]) == list(windows.out) and not any(added)
    alone = whole and not excluded
    value = layer.outputs[0] if alone else layer.between("whole")
    layer.add("Pooling", {"pooling_param": params}, outputs=[value], name="" if alone else "whole")
    n, c = layer.out_shape()[:2]
    if not whole:
        cut(layer, value, (n, c, *counted[1]), (0, 0, *added), (n, c, *windows.out))
    elif excluded:
        factor = np.broadcast_to(_shares(windows, pads), layer.out_shape())
        share = layer.between("share")
        layer.add("Parameter", parameter(factor.shape), inputs=[], outputs=[share], blobs=[factor], name="share")
        product = {"eltwise_param": {"operation": "PROD"}}
        layer.add("Eltwise", product, inputs=[value, share], name="means")


def _rounding(windows: Windows, pads: list[int], added: list[int]) -> tuple[str, list[int]]:
    """Caffe's round_mode whose windows hold those of the file, and how many there are."""
    wanted = [o + a for o, a in zip(windows.out, added)]
    found = []
    for mode in ("FLOOR", "CEIL"):
        counts = []
        for n, k, s, p in zip(windows.size, windows.kernel, windows.stride, pads):
            spare = n + 2 * p - k
            count = (spare // s if mode == "FLOOR" else -(-spare // s)) + 1
            counts.append(count - 1 if p and (count - 1) * s >= n + p else count)
        if counts == wanted:
            return mode, counts
        found.append(counts)
    for mode, counts in zip(("FLOOR", "CEIL"), found):
        if any(added) and all(c >= w for c, w in zip(counts, wanted)):
            return mode, counts
    need(False, f"the output is {list(windows.out)}, its windows make {found[0]} rounded down and {found[1]} up")
    raise AssertionError


def _shares(windows: Windows, pads: list[int]) -> Array:
    """What makes a mean over a window one over the cells of the map in it."""
    lines = []
    for n, k, s, p, o in zip(windows.size, windows.kernel, windows.stride, pads, windows.out):
        starts = np.arange(o) * s - p
        inside = np.minimum(starts + k, n) - np.maximum(starts, 0)
        counted = np.minimum(starts + k, n + p) - starts
        lines.append(counted / np.maximum(inside, 1))
    factor: Array = np.multiply.outer(*lines).astype(np.float32)
    return factor
