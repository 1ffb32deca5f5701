"""Convolutions and poolings. Caffe pads both sides alike and rounds poolings up: what differs is cropped."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from anylayer.graph import Op, Value
from anylayer.graph.facts import Window, padding_of, window_of
from anylayer.graph.intervals import Intervals
from anylayer.network import Array
from anylayer.writers.caffe.builder import Builder, Form
from anylayer.writers.caffe.settling import cropped, sized
from anylayer.writers.caffe.views import Pad, View


def windows_of(b: Builder, op: Op) -> Window:
    """Return the windows of a Conv, ConvTranspose or pooling. Raises LayerError where the padding is left open."""
    windows = window_of(op)
    if windows is None:
        raise b.refusal(f"no {op.op} with auto_pad={op.attrs.get('auto_pad')}")
    return windows


def _input(b: Builder, value: Value | None, windows: Window, *, zeros: bool) -> tuple[View, Window]:
    """The map that is read, and the windows with the padding it has before them, where `zeros` may be skipped."""
    view = b.view(value)
    last = view.steps[-1] if view.steps else None
    if zeros and isinstance(last, Pad) and last.value == 0 and not any((*last.begins[:2], *last.ends[:2])):
        inner = View(view.name, view.base, view.steps[:-1])
        begins = [p + q for p, q in zip(windows.begins, last.begins[2:])]
        ends = [p + q for p, q in zip(windows.ends, last.ends[2:])]
        if min(*begins, *ends) >= 0:
            return b.settled(inner), windows._replace(begins=begins, ends=ends)
    return b.settled(view), windows


# ---- convolution


def _conv(b: Builder, op: Op) -> None:
    weights, bias = b.const(op.inputs[1]), b.const(op.inputs[2]) if len(op.inputs) > 2 else None
    b.need(weights is not None, "no convolution by weights that are computed")
    if weights is None:
        return
    b.need(len(op.inputs) < 3 or op.inputs[2] is None or bias is not None, "no bias that is computed")
    windows = windows_of(b, op)
    x, windows = _input(b, op.inputs[0], windows, zeros=True)
    b.need(b.dialect.name != "opencv" or len(x.base) == 4, f"no convolution of {list(x.base)}, only of maps")
    counts = [int(n) for n in op.outputs[0].shape[2:]]
    pads, offsets, made = [], [], []
    for i, n in enumerate(x.base[2:]):
        p = windows.begins[i]
        extent, stride = windows.extents[i], windows.strides[i]
        while (n + 2 * p - extent) // stride + 1 < (p - windows.begins[i]) // stride + counts[i]:
            p += stride
        pads.append(p)
        offsets.append((p - windows.begins[i]) // stride)
        made.append((n + 2 * p - extent) // stride + 1)
    _need_inside(b, x, windows, pads)
    params = convolution(windows, pads, len(weights), int(op.attrs.get("group") or 1), bias is not None)
    shape = (x.base[0], len(weights), *made)
    like = None
    if made != counts and any(s > 1 for s in windows.strides):
        like = _strided(b, x, windows, counts)
    elif made != counts:
        like = x
    y = b.add(
        "Convolution", [x], shape, {"convolution_param": params}, [weights, *([] if bias is None else [bias])]
    )
    b.give(op.outputs[0], cropped(b, y, offsets, counts, like))


def _need_inside(b: Builder, x: View, windows: Window, pads: Sequence[int]) -> None:
    """Refuse, for OpenCV, a window that overhangs the padded map: it finds no place for one."""
    inside = all(n + 2 * p >= e for n, p, e in zip(x.base[2:], pads, windows.extents))
    b.need(
        inside or b.dialect.name != "opencv",
        f"no windows of {windows.extents} on a map of {list(x.base[2:])} with pads {list(pads)}",
    )


def convolution(windows: Window, pads: Sequence[int], outputs: int, group: int, bias: bool) -> dict[str, Any]:
    """The fields of convolution_param."""
    params: dict[str, Any] = {"num_output": outputs}
    if not bias:
        params["bias_term"] = False
    params |= sized("pad", pads, 0) | sized("kernel", windows.kernel, None)
    if group > 1:
        params["group"] = group
    return params | sized("stride", windows.strides, 1) | sized("dilation", windows.dilations, 1)


def _strided(b: Builder, x: View, windows: Window, counts: Sequence[int]) -> View | None:
    """A blob of as many cells as a strided window gives with 'same' padding, whatever the size of the input: one
    channel of a convolution of 1 x 1."""
    made = [(n - 1) // s + 1 for n, s in zip(x.base[2:], windows.strides)]
    if made != list(counts) or not b.dialect.has("Crop"):
        return None
    params = {"num_output": 1, "bias_term": False, **sized("kernel", [1] * len(made), None)}
    params |= sized("stride", windows.strides, 1)
    ones = np.zeros((1, x.base[1], *(1,) * len(made)), np.float32)
    return b.add("Convolution", [x], (x.base[0], 1, *made), {"convolution_param": params}, [ones], suffix="size")


def _conv_transpose(b: Builder, op: Op) -> None:
    weights, bias = b.const(op.inputs[1]), b.const(op.inputs[2]) if len(op.inputs) > 2 else None
    b.need(weights is not None, "no deconvolution by weights that are computed")
    if weights is None:
        return
    x = b.settled(op.inputs[0])
    b.need(b.dialect.name != "opencv" or len(x.base) == 4, f"no deconvolution of {list(x.base)}, only of maps")
    windows = windows_of(b, op)
    wanted = [int(n) for n in op.outputs[0].shape[2:]]
    longer = []
    for i, n in enumerate(
        x.base[2:]
    ):  # an output that ends behind the last window: a kernel with zeros at its end
        lacks = windows.begins[i] + wanted[i] - (windows.strides[i] * (n - 1) + windows.extents[i])
        longer.append(max(0, -(-lacks // windows.dilations[i])))
    if any(longer):
        weights = np.pad(weights, [(0, 0), (0, 0), *((0, n) for n in longer)])
        windows = windows._replace(kernel=list(weights.shape[2:]))
    if b.dialect.name == "opencv" and set(windows.dilations) != {1}:  # which it passes over
        spaced = np.zeros((*weights.shape[:2], *windows.extents), np.float32)
        cells = (slice(None), slice(None), *(slice(None, None, d) for d in windows.dilations))
        spaced[cells] = weights
        weights, ones = spaced, [1] * len(windows.kernel)
        windows = windows._replace(kernel=list(spaced.shape[2:]), dilations=ones)
    full = [s * (n - 1) + e for n, s, e in zip(x.base[2:], windows.strides, windows.extents)]
    pads = [min(p, f - p - w) for p, f, w in zip(windows.begins, full, wanted)]
    group = int(op.attrs.get("group") or 1)
    outputs = weights.shape[1] * group
    made = [f - 2 * p for f, p in zip(full, pads)]
    params = convolution(windows, pads, outputs, group, bias is not None)
    blobs = [weights, *([] if bias is None else [bias])]
    y = b.add("Deconvolution", [x], (x.base[0], outputs, *made), {"convolution_param": params}, blobs)
    offsets = [p - q for p, q in zip(windows.begins, pads)]
    b.give(op.outputs[0], cropped(b, y, offsets, wanted))


# ---- pooling


class _Line(NamedTuple):
    """How one axis is pooled by Caffe: its pad, the first window wanted, how many there are, and by how much each
    wanted mean must be multiplied."""

    pad: int
    offset: int
    made: int
    factor: Array


def _lines(size: int, i: int, windows: Window, count: int, floor: bool, divisors: Array | None) -> Iterator[_Line]:
    """The ways to have the wanted windows among Caffe's, those with less padding first."""
    k, s, begin = windows.kernel[i], windows.strides[i], windows.begins[i]
    for pad in range(begin, k, s):
        spare = size + 2 * pad - k
        made = (spare // s if floor else -(-spare // s)) + 1
        if pad and (made - 1) * s >= size + pad:
            made -= 1
        offset = (pad - begin) // s
        if made < offset + count:
            continue
        starts = (np.arange(count) + offset) * s - pad
        if (starts >= size).any():
            continue
        if divisors is None:
            factor = np.ones(count, np.float32)
        else:
            ends = np.minimum(starts + k, size + pad)
            cells = np.minimum(ends, size) - np.maximum(starts, 0) if not pad else ends - starts
            factor = (cells / divisors).astype(np.float32)
        yield _Line(pad, offset, made, factor)


def _pool(b: Builder, op: Op) -> None:
    average = op.op in ("AveragePool", "GlobalAveragePool")
    b.need(len(op.outputs) < 2 or not b.uses.get(op.outputs[1]), "no pooling with int64 places of the maxima")
    value = op.inputs[0]
    zeros = not average and Intervals(b.makers).lowest(value) >= 0  # then padding by zeros never is the maximum
    x, windows = _input(b, value, windows_of(b, op), zeros=zeros)
    b.need(len(x.base) == 4, f"no pooling of {list(x.base)}, only of maps (N, C, H, W)")
    b.need(set(windows.dilations) == {1}, "no pooling with dilations")
    counts = [int(n) for n in op.outputs[0].shape[2:]]
    method = {"pool": "AVE" if average else "MAX"}
    if list(windows.kernel) == list(x.base[2:]) and counts == [1, 1] and not any(windows.begins + windows.ends):
        y = b.add("Pooling", [x], (*x.base[:2], 1, 1), {"pooling_param": {**method, "global_pooling": True}})
        b.give(op.outputs[0], y)
        return
    divisors = _divisors(x, windows, counts, op) if average else [None, None]
    best, floor = _best(b, x, windows, counts, divisors)
    _need_inside(b, x, windows, [line.pad for line in best])
    params = {**method, **sized("kernel", windows.kernel, None), **sized("stride", windows.strides, 1)}
    params |= sized("pad", [line.pad for line in best], 0)
    if floor and b.dialect.floor:
        params[b.dialect.floor[0]] = b.dialect.floor[1]
    made = [line.made for line in best]
    like = x if counts == list(x.base[2:]) else None
    if made != counts and like is None:
        like = _strided(b, x, windows, counts)
    y = b.add("Pooling", [x], (*x.base[:2], *made), {"pooling_param": params})
    y = cropped(b, y, [line.offset for line in best], counts, like)
    factor = best[0].factor[:, None] * best[1].factor
    if not np.allclose(factor, 1, rtol=1e-7):
        scale = {"axis": 2, "num_axes": 2}
        y = b.add("Scale", [y], y.base, {"scale_param": scale}, [factor.astype(np.float32)], suffix="mean")
    b.give(op.outputs[0], y)


def _best(
    b: Builder, x: View, windows: Window, counts: list[int], divisors: Sequence[Array | None]
) -> tuple[list[_Line], bool]:
    """The way with the fewest further layers, and whether it rounds down."""
    found = []
    for floor in (False, True) if b.dialect.floor else (False,):
        axes = [list(_lines(x.base[2 + i], i, windows, counts[i], floor, divisors[i])) for i in (0, 1)]
        for high in axes[0]:
            for wide in axes[1]:
                crop = [high.made, wide.made] != counts
                scaled = not all(np.allclose(line.factor, 1, rtol=1e-7) for line in (high, wide))
                found.append(((crop + scaled, floor, high.pad + wide.pad), [high, wide], floor))
    b.need(
        found,
        f"no pooling whose windows {windows.kernel} with pads {windows.begins + windows.ends} lie so on a map of "
        f"{list(x.base[2:])}: its pad is less than the kernel",
    )
    cost = min(range(len(found)), key=lambda i: found[i][0])
    return found[cost][1], found[cost][2]


def _divisors(x: View, windows: Window, counts: list[int], op: Op) -> list[Array]:
    """By how much each window's sum is divided, along each axis."""
    found = []
    for i, n in enumerate(x.base[2:]):
        starts = np.arange(counts[i]) * windows.strides[i] - windows.begins[i]
        low, high = (-windows.begins[i], n + windows.ends[i]) if op.attrs.get("count_include_pad") else (0, n)
        ends = starts + windows.kernel[i]
        found.append(np.minimum(ends, high) - np.maximum(starts, low))
    return found


def _pad(b: Builder, op: Op) -> None:
    view = b.view(op.inputs[0])
    b.need((op.attrs.get("mode") or "constant") == "constant", f"no padding by mode {op.attrs.get('mode')}")
    padding = padding_of(op)
    if padding is None:
        raise b.refusal("no pads, axes or padding value that are computed when the network runs")
    begins, ends, number = padding
    last = view.steps[-1] if view.steps else None
    if isinstance(last, Pad) and last.value == number:
        begins = [p + q for p, q in zip(begins, last.begins)]
        ends = [p + q for p, q in zip(ends, last.ends)]
        view = View(view.name, view.base, view.steps[:-1])
    b.give(op.outputs[0], view.then(Pad(tuple(begins), tuple(ends), number)))


WINDOWS: dict[str, Form] = {
    "Conv": _conv,
    "ConvTranspose": _conv_transpose,
    "MaxPool": _pool,
    "AveragePool": _pool,
    "GlobalAveragePool": _pool,
    "GlobalMaxPool": _pool,
    "Pad": _pad,
}
