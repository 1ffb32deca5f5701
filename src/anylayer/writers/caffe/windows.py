"""Convolution, pooling, regions and padding.

Caffe pads both sides of an axis equally and rounds the number of pooling windows up. Where an operator does
neither, a larger result is computed and cropped.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from anylayer.graph import Op, Value
from anylayer.graph.facts import Window, padding_of, window_of
from anylayer.graph.intervals import Intervals
from anylayer.layer.arguments import pooled_sizes
from anylayer.network import Array
from anylayer.writers.caffe.affine import scale_and_shift
from anylayer.writers.caffe.builder import CaffeBuilder, CaffeLowering
from anylayer.writers.caffe.materialize import crop, spatial_fields
from anylayer.writers.caffe.products import inner_product
from anylayer.writers.caffe.views import AxisProduct, BlobView, PadStep


def _windows(b: CaffeBuilder, op: Op) -> Window:
    """Return the windows of a Conv, ConvTranspose or pooling operator. Raises LayerError for an auto_pad."""
    windows = window_of(op)
    if windows is None:
        raise b.refusal(f"no {op.op} with auto_pad={op['auto_pad']}")
    return windows


def _absorb_pad(b: CaffeBuilder, value: Value | None, windows: Window, *, zeros: bool) -> tuple[BlobView, Window]:
    """Return the input map and the windows. With `zeros`, add the map's deferred zero padding to the windows."""
    view = b.view(value)
    last = view.steps[-1] if view.steps else None
    if zeros and isinstance(last, PadStep) and last.value == 0 and not any((*last.begins[:2], *last.ends[:2])):
        inner = BlobView(view.name, view.base, view.steps[:-1])
        begins = [p + q for p, q in zip(windows.begins, last.begins[2:])]
        ends = [p + q for p, q in zip(windows.ends, last.ends[2:])]
        if min(*begins, *ends) >= 0:
            return b.materialized(inner), windows._replace(begins=begins, ends=ends)
    return b.materialized(view), windows


# ---- convolution


def _weights(b: CaffeBuilder, op: Op, what: str) -> list[Array]:
    """Return the weights of a Conv or ConvTranspose, and its bias if it has one."""
    weights = b.given(op.constant(1), f"no {what} with computed weights")
    if op.input(2) is None:
        return [weights]
    return [weights, b.given(op.constant(2), f"no {what} with a computed bias")]


def _conv(b: CaffeBuilder, op: Op) -> BlobView:
    """Add a Convolution, and a Crop where it has more windows than the operator.

    The pad of an axis is the pad at its beginning, plus multiples of the stride until enough windows fit.
    """
    weights, *bias = _weights(b, op, "convolution")
    x, windows = _absorb_pad(b, op.inputs[0], _windows(b, op), zeros=True)
    b.need(b.dialect.name != "opencv" or len(x.base) == 4, f"no convolution of {list(x.base)}, only of maps")
    counts = [int(n) for n in op.outputs[0].shape[2:]]
    pads, offsets, sizes = [], [], []
    for i, n in enumerate(x.base[2:]):
        p = windows.begins[i]
        extent, stride = windows.extents[i], windows.strides[i]
        while (n + 2 * p - extent) // stride + 1 < (p - windows.begins[i]) // stride + counts[i]:
            p += stride
        pads.append(p)
        offsets.append((p - windows.begins[i]) // stride)
        sizes.append((n + 2 * p - extent) // stride + 1)
    _need_inside(b, x, windows, pads)
    params = convolution(windows, pads, len(weights), int(op["group"]), bool(bias))
    shape = (x.base[0], len(weights), *sizes)
    like = None
    if sizes != counts and any(s > 1 for s in windows.strides):
        like = _blob_of_strided_size(b, x, windows, counts)
    elif sizes != counts:
        like = x
    y = b.add("Convolution", [x], shape, {"convolution_param": params}, [weights, *bias])
    return crop(b, y, offsets, counts, like)


def _need_inside(b: CaffeBuilder, x: BlobView, windows: Window, pads: Sequence[int]) -> None:
    """Raise LayerError for a window that is larger than the padded map, which OpenCV refuses."""
    inside = all(n + 2 * p >= e for n, p, e in zip(x.base[2:], pads, windows.extents))
    b.need(
        inside or b.dialect.name != "opencv",
        f"no windows of {windows.extents} on a map of {list(x.base[2:])} with pads {list(pads)}",
    )


def convolution(windows: Window, pads: Sequence[int], outputs: int, group: int, bias: bool) -> dict[str, Any]:
    """Return the fields of convolution_param."""
    params: dict[str, Any] = {"num_output": outputs}
    if not bias:
        params["bias_term"] = False
    params |= spatial_fields("pad", pads, 0) | spatial_fields("kernel", windows.kernel, None)
    if group > 1:
        params["group"] = group
    return params | spatial_fields("stride", windows.strides, 1) | spatial_fields("dilation", windows.dilations, 1)


def _blob_of_strided_size(b: CaffeBuilder, x: BlobView, windows: Window, counts: Sequence[int]) -> BlobView | None:
    """Return a blob whose spatial sizes are ceil(size / stride), those of a result with SAME padding, as the
    second input of Crop. Return None if the operator's output has other sizes or the dialect has no Crop. The blob
    is one channel of a strided 1 x 1 convolution of x, so it also has these sizes for inputs of other sizes.
    """
    sizes = [(n - 1) // s + 1 for n, s in zip(x.base[2:], windows.strides)]
    if sizes != list(counts) or not b.dialect.has("Crop"):
        return None
    params = {"num_output": 1, "bias_term": False, **spatial_fields("kernel", [1] * len(sizes), None)}
    params |= spatial_fields("stride", windows.strides, 1)
    zeros = np.zeros((1, x.base[1], *(1,) * len(sizes)), np.float32)
    return b.add("Convolution", [x], (x.base[0], 1, *sizes), {"convolution_param": params}, [zeros], suffix="size")


def _conv_transpose(b: CaffeBuilder, op: Op) -> BlobView:
    """Add a Deconvolution, and a Crop where its pads cannot be those of the operator."""
    weights, *bias = _weights(b, op, "deconvolution")
    x = b.materialized(op.inputs[0])
    b.need(b.dialect.name != "opencv" or len(x.base) == 4, f"no deconvolution of {list(x.base)}, only of maps")
    windows = _windows(b, op)
    output_sizes = [int(n) for n in op.outputs[0].shape[2:]]
    zero_taps = []  # at the end of the kernel, for an output that extends beyond the last window
    for i, n in enumerate(x.base[2:]):
        missing = windows.begins[i] + output_sizes[i] - (windows.strides[i] * (n - 1) + windows.extents[i])
        zero_taps.append(max(0, -(-missing // windows.dilations[i])))
    if any(zero_taps):
        weights = np.pad(weights, [(0, 0), (0, 0), *((0, n) for n in zero_taps)])
        windows = windows._replace(kernel=list(weights.shape[2:]))
    if b.dialect.name == "opencv" and set(windows.dilations) != {1}:
        weights, windows = _insert_zeros(weights, windows)
    full = [s * (n - 1) + e for n, s, e in zip(x.base[2:], windows.strides, windows.extents)]
    pads = [min(p, f - p - w) for p, f, w in zip(windows.begins, full, output_sizes)]
    group = int(op["group"])
    outputs = weights.shape[1] * group
    sizes = [f - 2 * p for f, p in zip(full, pads)]
    params = {"convolution_param": convolution(windows, pads, outputs, group, bool(bias))}
    y = b.add("Deconvolution", [x], (x.base[0], outputs, *sizes), params, [weights, *bias])
    offsets = [p - q for p, q in zip(windows.begins, pads)]
    return crop(b, y, offsets, output_sizes)


def _insert_zeros(weights: Array, windows: Window) -> tuple[Array, Window]:
    """Insert zeros between the kernel's taps instead of the dilation, which OpenCV's Deconvolution ignores."""
    spread = np.zeros((*weights.shape[:2], *windows.extents), np.float32)
    spread[(slice(None), slice(None), *(slice(None, None, d) for d in windows.dilations))] = weights
    return spread, windows._replace(kernel=windows.extents, dilations=[1] * len(windows.kernel))


# ---- pooling


class _PooledAxis(NamedTuple):
    """A way in which Caffe can pool an axis: its pad, the index of the first window that is wanted, and for each
    wanted window the factor that its mean must be multiplied with."""

    pad: int
    offset: int
    factor: Array


def _pooled_axes(
    size: int, i: int, windows: Window, count: int, floor: bool, divisors: Array | None, *, whole: bool = False
) -> Iterator[_PooledAxis]:
    """Yield the ways in which Caffe's windows on axis i contain the `count` wanted ones, by increasing padding.

    `floor` says whether Caffe rounds the number of windows down. `divisors` are the wanted divisors of the sums.
    `whole` says whether Caffe divides every sum by the size of the kernel.
    """
    k, s, begin = windows.kernel[i], windows.strides[i], windows.begins[i]
    for pad in range(begin, k, s):
        spare = size + 2 * pad - k
        offset = (pad - begin) // s
        if (spare // s if floor else -(-spare // s)) + 1 < offset + count:
            continue
        starts = (np.arange(count) + offset) * s - pad
        if (starts >= size).any():
            continue
        if divisors is None:
            factor = np.ones(count, np.float32)
        else:
            ends = np.minimum(starts + k, size + pad)
            cells = np.minimum(ends, size) - np.maximum(starts, 0) if not pad else ends - starts
            cells = np.full(count, k) if whole else cells
            factor = (cells / divisors).astype(np.float32)
        yield _PooledAxis(pad, offset, factor)


def _pool(b: CaffeBuilder, op: Op) -> BlobView:
    """Add a Pooling, a Crop if it has more windows, and a Scale if Caffe divides by other numbers of cells."""
    average = op.op in ("AveragePool", "GlobalAveragePool")
    b.need(len(op.outputs) < 2 or op.outputs[1] not in b.consumers, "no pooling with int64 indices of the maxima")
    value = op.inputs[0]
    # Zero padding cannot be the maximum of elements that are at least 0: each window contains a cell of the map.
    zeros = not average and Intervals(b.producers).lowest(value) >= 0
    x, windows = _absorb_pad(b, value, _windows(b, op), zeros=zeros)
    b.need(len(x.base) == 4, f"no pooling of {list(x.base)}, only of maps (N, C, H, W)")
    b.need(set(windows.dilations) == {1}, "no pooling with dilations")
    counts = [int(n) for n in op.outputs[0].shape[2:]]
    method = {"pool": "AVE" if average else "MAX"}
    if list(windows.kernel) == list(x.base[2:]) and counts == [1, 1] and not any(windows.begins + windows.ends):
        return b.add("Pooling", [x], (*x.base[:2], 1, 1), {"pooling_param": {**method, "global_pooling": True}})
    divisors: list[Array] | list[None] = _divisors(x, windows, counts, op) if average else [None, None]
    axes, sizes, floor = _cheapest_pooling(b, x, windows, counts, divisors)
    _need_inside(b, x, windows, [axis.pad for axis in axes])
    params = {
        **method,
        **spatial_fields("kernel", windows.kernel, None),
        **spatial_fields("stride", windows.strides, 1),
    }
    params |= spatial_fields("pad", [axis.pad for axis in axes], 0)
    if floor and b.dialect.floor:
        params[b.dialect.floor[0]] = b.dialect.floor[1]
    like = x if counts == list(x.base[2:]) else None
    if sizes != counts and like is None:
        like = _blob_of_strided_size(b, x, windows, counts)
    y = b.add("Pooling", [x], (*x.base[:2], *sizes), {"pooling_param": params})
    y = crop(b, y, [axis.offset for axis in axes], counts, like)
    factor = axes[0].factor[:, None] * axes[1].factor
    if not np.allclose(factor, 1, rtol=1e-7):
        scale = {"axis": 2, "num_axes": 2}
        y = b.add("Scale", [y], y.base, {"scale_param": scale}, [factor.astype(np.float32)], suffix="mean")
    return y


def _cheapest_pooling(
    b: CaffeBuilder, x: BlobView, windows: Window, counts: list[int], divisors: Sequence[Array | None]
) -> tuple[list[_PooledAxis], list[int], bool]:
    """Return for each axis the way that needs the fewest further layers, the numbers of windows that Caffe
    computes, and whether both round down.

    Raises LayerError where Caffe's windows cannot contain the wanted ones.
    """
    candidates = []
    for floor in (False, True) if b.dialect.floor else (False,):
        ways = [
            list(
                _pooled_axes(
                    x.base[2 + i], i, windows, counts[i], floor, divisors[i], whole=b.dialect.whole_kernel
                )
            )
            for i in (0, 1)
        ]
        for high in ways[0]:
            for wide in ways[1]:
                output_sizes = pooled_sizes(
                    x.base[2:],
                    windows.kernel,
                    windows.strides,
                    [high.pad, wide.pad],
                    ceil=not floor,
                    per_axis=b.dialect.name == "opencv",
                )
                scaled = not all(np.allclose(axis.factor, 1, rtol=1e-7) for axis in (high, wide))
                cost = ((output_sizes != counts) + scaled, floor, high.pad + wide.pad)
                candidates.append((cost, [high, wide], output_sizes, floor))
    b.need(
        candidates,
        f"no pooling with windows {windows.kernel} and pads {windows.begins + windows.ends} on a map of "
        f"{list(x.base[2:])}: its pads must be less than the kernel",
    )
    _, axes, output_sizes, floor = min(candidates, key=lambda candidate: candidate[0])
    return axes, output_sizes, floor


def _divisors(x: BlobView, windows: Window, counts: list[int], op: Op) -> list[Array]:
    """Return for each axis the number of cells along it that each window's sum is divided by."""
    divisors = []
    counts_padding = op.op == "AveragePool" and op["count_include_pad"]
    for i, n in enumerate(x.base[2:]):
        starts = np.arange(counts[i]) * windows.strides[i] - windows.begins[i]
        low, high = (-windows.begins[i], n + windows.ends[i]) if counts_padding else (0, n)
        ends = starts + windows.kernel[i]
        divisors.append(np.minimum(ends, high) - np.maximum(starts, low))
    return divisors


def _pad(b: CaffeBuilder, op: Op) -> BlobView:
    """Defer a constant padding, combined with a padding before it that has the same value."""
    view = b.view(op.inputs[0])
    b.need(op["mode"] == "constant", f"no padding with mode {op['mode']}")
    refused = "no pads, axes or padding value that are computed when the network runs"
    begins, ends, number = b.given(padding_of(op), refused)
    last = view.steps[-1] if view.steps else None
    if isinstance(last, PadStep) and last.value == number:
        begins = [p + q for p, q in zip(begins, last.begins)]
        ends = [p + q for p, q in zip(ends, last.ends)]
        view = BlobView(view.name, view.base, view.steps[:-1])
    return view.then(PadStep(tuple(begins), tuple(ends), number))


# ---- regions


def _roi_align(b: CaffeBuilder, op: Op) -> BlobView:
    """Add Ascend's ROIAlign."""
    b.need(b.dialect.name == "ascend", "no layer for RoiAlign; dialect 'ascend' has it")
    mode = op["mode"]
    b.need(mode == "avg", f"no RoiAlign with mode={mode}, only avg")
    shifted = op["coordinate_transformation_mode"] == "half_pixel"
    params: dict[str, Any] = {
        "pooled_h": int(op["output_height"]),
        "pooled_w": int(op["output_width"]),
        "spatial_scale": float(op["spatial_scale"]),
        "sampling_ratio": int(op["sampling_ratio"]),
        "roi_end_mode": 2 if shifted else 0,
    }
    bottoms = [b.materialized(op.inputs[0]), _regions(b, op)]
    return b.add("ROIAlign", bottoms, tuple(op.outputs[0].shape), {"roi_align_param": params})


def _regions(b: CaffeBuilder, op: Op) -> BlobView:
    """Return the regions as Caffe has them: image, x1, y1, x2, y2."""
    rois = b.view(op.inputs[1])
    if len(op.inputs) == 2:  # ascend_rules.py found this blob
        return b.materialized(rois)
    shape = (rois.shape[0], 5)
    images = op.constant(2)
    if images is None:
        column = b.materialized(b.view(op.inputs[2]).reshaped((shape[0], 1)))
        return b.add("Concat", [column, rois], shape, suffix="regions")
    wide = b.materialized(rois.then(AxisProduct(1, np.eye(5, 4, -1, np.float32))))
    if not images.any():
        return wide
    same = (images == images[0]).all()
    first = np.zeros((1 if same else shape[0], 5), np.float32)
    first[:, 0] = images[: len(first)]
    return scale_and_shift(b, wide, None, first, suffix="regions")


def _spatial_transformer(b: CaffeBuilder, op: Op) -> BlobView:
    """Add Ascend's SpatialTransformer: see ascend_rules.py."""
    size, offset = tuple(map(int, op.outputs[0].shape)), op.attrs["offset"]
    x = b.materialized(op.inputs[0])
    params: dict[str, Any] = {} if size[2:] == x.base[2:] else {"output_H": size[2], "output_W": size[3]}
    if len(op.inputs) == 1:
        params |= {f"theta_{i // 3 + 1}_{i % 3 + 1}": float(number) for i, number in enumerate(offset)}
        bottoms = [x]
    else:
        bottoms = [x, inner_product(b, op.inputs[1], op.attrs["matrix"], offset)]
    return b.add("SpatialTransformer", bottoms, size, {"st_param": params})


def _grid_sample(b: CaffeBuilder, op: Op) -> BlobView:
    """Raise LayerError for a GridSample that ascend_rules.py has not replaced."""
    affine = "bilinear samples with zeros outside, at the points of one affine map per image (AffineGrid)"
    b.need(b.dialect.name == "ascend", f"no layer for GridSample; dialect 'ascend' has one for {affine}")
    raise b.refusal(f"no GridSample other than {affine}")


WINDOWS: dict[str, CaffeLowering] = {
    "Conv": _conv,
    "ConvTranspose": _conv_transpose,
    **dict.fromkeys(("MaxPool", "AveragePool", "GlobalAveragePool", "GlobalMaxPool"), _pool),
    "Pad": _pad,
    "RoiAlign": _roi_align,
    "GridSample": _grid_sample,
    "SpatialTransformer": _spatial_transformer,
}
