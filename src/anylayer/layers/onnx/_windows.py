"""NumPy meanings of convolutions, pooling, resizing, sampling and other operators over neighbourhoods."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import product
from typing import Any

import numpy as np

from anylayer import ops
from anylayer.errors import ShapeError, need
from anylayer.layer.arguments import extent, flat_pads, integers, pad_pairs, same_pads, scaled_size
from anylayer.layers._deformable import deformable_convolution
from anylayer.layers._detections import corners
from anylayer.layers.onnx._call import ANY_SIZE, SHAPES, SPELLED_OUT, NoMeaning, OpCall, meaning, meanings, of
from anylayer.network import Array
from anylayer.ops.grid_sample import on_axis, taps


def explicit(call: OpCall) -> None:
    """Make a window explicit, in place: kernel, strides, dilations, and pads in place of `auto_pad`."""
    x, axes = call.inputs[0], len(call.inputs[0].shape) - 2
    weights = call.input(1) if call.op.startswith("Conv") else None
    if call.op == "QLinearConv":
        weights = call.input(3)
    kernel = call["kernel_shape"] or (tuple(weights.shape[2:]) if weights is not None else None)
    kernel = tuple(kernel or ())
    need(axes > 0, f"needs an input (N, C, ...), got shape {tuple(x.shape)}", ShapeError)
    need(len(kernel) == axes, f"kernel_shape={kernel} does not fit an input of {axes} spatial axes", ShapeError)
    if weights is not None and tuple(weights.shape[2:]) != tuple(kernel):
        raise ShapeError(f"kernel_shape={tuple(kernel)} does not fit weights of shape {tuple(weights.shape)}")
    strides = tuple(call["strides"] or (1,) * axes)
    dilations = tuple(call["dilations"] or (1,) * axes)
    need(
        len(strides) == len(dilations) == axes and min(*strides, *dilations) > 0,
        f"strides={strides} and dilations={dilations} must each be {axes} numbers above 0",
    )
    pads = call["pads"] or (0,) * (2 * axes)
    need(len(pads) == 2 * axes, f"pads must be {2 * axes} numbers, got {len(pads)}")
    mode = call["auto_pad"] or "NOTSET"
    need(
        mode in ("NOTSET", "VALID", "SAME_UPPER", "SAME_LOWER"),
        f"auto_pad must be one of NOTSET, VALID, SAME_UPPER, SAME_LOWER, got {mode!r}",
    )
    call.attrs.update(kernel_shape=kernel, strides=strides)
    if "dilations" in call.attrs:
        new = call.op == "AveragePool" and set(dilations) == {1}  # an attribute since operator set 19
        call.attrs["dilations"] = None if new else dilations
    if mode == "VALID":
        pads = (0,) * (2 * axes)
    elif mode != "NOTSET":
        extents = [extent(k, d) for k, d in zip(kernel, dilations)]
        pads = flat_pads(same_pads(x.shape[2:], extents, strides, upper=mode == "SAME_UPPER"))
    call.attrs.update(pads=tuple(pads), auto_pad=None)


def explicit_transpose(call: OpCall) -> None:
    """Make the window of a transposed convolution explicit, in place; `output_shape` determines pads too."""
    mode, shape = call["auto_pad"] or "NOTSET", call["output_shape"]
    same = mode in ("SAME_UPPER", "SAME_LOWER")
    if same:
        call.attrs["auto_pad"] = "NOTSET"
    explicit(call)
    call.attrs["output_shape"] = None
    if not same and not shape:
        return
    x, axes = call.inputs[0], len(call.inputs[0].shape) - 2
    extra = tuple(call["output_padding"] or (0,) * axes)
    output = shape[-axes:] if shape else [n * s for n, s in zip(x.shape[2:], call["strides"])]
    first, last, more = [], [], []
    for n, k, s, d, e, want in zip(
        x.shape[2:], call["kernel_shape"], call["strides"], call["dilations"], extra, output
    ):
        total = s * (n - 1) + e + extent(k, d) - want
        more.append(e + max(-total, 0))
        total = max(total, 0)
        low = total // 2 if mode == "SAME_UPPER" else total - total // 2
        first.append(low)
        last.append(total - low)
    call.attrs.update(pads=(*first, *last), output_padding=tuple(more) if any(more) else None)


SPELLED_OUT.update(
    dict.fromkeys(("Conv", "MaxPool", "AveragePool", "LpPool", "ConvInteger", "QLinearConv"), explicit)
)
SPELLED_OUT["ConvTranspose"] = explicit_transpose


_WINDOW = ("strides", "pads", "dilations")
convolution = of(ops.conv, *_WINDOW, "group")
"""The convolution of a call whose window is explicit."""
meaning("Conv")(convolution)
meaning("ConvTranspose")(of(ops.conv_transpose, *_WINDOW, "group", "output_padding"))
meaning("DepthToSpace")(of(ops.depth_to_space, "mode", block="blocksize"))
meaning("LRN")(of(ops.lrn, "size", "alpha", "beta", "bias"))
meaning("MaxRoiPool")(of(ops.max_roi_pool, "spatial_scale", size="pooled_shape"))


def _rounds_windows(call: OpCall) -> bool:
    """Return whether engines differ in the number of windows."""
    dilated = any(d != 1 for d in call["dilations"] or ())
    return bool(call["ceil_mode"]) and call.outputs == 1 and not dilated


def _is_column_major(call: OpCall) -> bool:
    """Return whether indices count in column-major order, which OpenVINO ignores."""
    return bool(call["storage_order"]) and call.outputs > 1


@meaning("MaxPool", replaces=lambda call: _rounds_windows(call) or _is_column_major(call))
def _max_pool(call: OpCall, x: Array) -> Any:
    window: dict[str, Any] = {name: call[name] for name in (*_WINDOW, "ceil_mode")}
    if call.outputs == 1:
        return ops.max_pool(x, call["kernel_shape"], **window)
    y, indices = ops.max_pool_with_indices(x, call["kernel_shape"], **window)
    sizes = x.shape[2:]
    if call["storage_order"]:
        rest, indices = indices, indices * 0
        for axis in reversed(range(len(sizes))):  # the first axis varies fastest
            indices = indices + rest % sizes[axis] * math.prod(sizes[:axis])
            rest = rest // sizes[axis]
    plane = np.arange(math.prod(x.shape[:2])).reshape(*x.shape[:2], *(1,) * len(sizes))
    return y, indices + plane * math.prod(sizes)


average_pool = of(ops.average_pool, *_WINDOW, "ceil_mode", "count_include_pad", kernel="kernel_shape")
"""The mean of each window of a call whose window is explicit."""
meaning("AveragePool", replaces=_rounds_windows)(average_pool)


@meaning("SpaceToDepth")
def _space_to_depth(call: OpCall, x: Array) -> Array:
    """Move blocks of cells into channels. Before version 28 there is no mode. With "CRD", the cells of a channel
    become consecutive channels.
    """
    block, mode = call["blocksize"], call["mode"] or "DCR"
    need(mode in ("DCR", "CRD"), f"mode must be 'DCR' or 'CRD', got {mode!r}")
    cells = ops.space_to_depth(x, block)
    if mode == "DCR":
        return cells
    n, c, h, w = cells.shape
    return cells.reshape(n, block**2, c // block**2, h, w).transpose(0, 2, 1, 3, 4).reshape(n, c, h, w)


def _pixels(x: Array) -> dict[str, Any]:
    """Return the arguments that make NumPy reduce all axes after the channels."""
    return {"axis": tuple(range(2, len(x.shape))), "keepdims": True}


meanings({"GlobalAveragePool": lambda x: x.mean(**_pixels(x)), "GlobalMaxPool": lambda x: x.max(**_pixels(x))})


@meaning("GlobalLpPool")
def _global_lp(call: OpCall, x: Any) -> Array:
    return ((np.abs(x) ** call["p"]).sum(**_pixels(x)) ** (1 / call["p"])).astype(x.dtype)


@meaning("LpPool")
def _lp_pool(call: OpCall, x: Any) -> Any:
    p = call["p"]
    powers = np.abs(x) ** x.dtype.type(p)
    mean = OpCall("AveragePool", call.version, [powers], {**call.attrs, "count_include_pad": 1, "ceil_mode": 0})
    if call["ceil_mode"]:
        raise NoMeaning
    total = average_pool(mean, powers) * x.dtype.type(math.prod(call["kernel_shape"]))
    return (total ** x.dtype.type(1 / p)).astype(x.dtype)


def _states_shape(call: OpCall) -> bool:
    """Return whether output_shape is a constant. ONNX Runtime takes indices as positions in it."""
    return call.input(2) is not None and call.is_constant(2)


@meaning("MaxUnpool", replaces=_states_shape)
def _max_unpool(call: OpCall, x: Any, indices: Any, shape: Any = None) -> Array:
    """Undo a maximum pooling.

    Indices are positions in the input of the pooling. They are positions in `shape` only if both shapes are equal.
    """
    axes = len(x.shape) - 2
    pads = call["pads"] or (0,) * (2 * axes)
    strides = call["strides"] or (1,) * axes
    sizes = [
        (n - 1) * s + k - pads[i] - pads[i + axes]
        for i, (n, s, k) in enumerate(zip(x.shape[2:], strides, call["kernel_shape"]))
    ]
    count = math.prod(x.shape[:2]) * math.prod(sizes)
    flat = ops.max_unpool(x.reshape(1, 1, -1), indices.reshape(1, 1, -1), count)
    whole = flat.reshape(*x.shape[:2], *sizes)
    if shape is None:
        return whole
    target = integers(shape, "output_shape")
    need(
        len(target) == axes + 2 and all(n <= m for n, m in zip(whole.shape, target)),
        f"output_shape {tuple(target)} must be at least {whole.shape}",
    )
    return np.pad(whole, [(0, m - n) for n, m in zip(whole.shape, target)])


def _sums_channels(call: OpCall) -> None:
    shape, size = tuple(call.inputs[0].shape), call["size"]
    need(len(shape) >= 2, f"takes an input (N, C, ...), got shape {shape}")
    need(size >= 1, f"size must be at least 1, got {size}")


ANY_SIZE.add("LRN")
SPELLED_OUT["LRN"] = _sums_channels


_BY_SCALE = ("half_pixel", "pytorch_half_pixel", "asymmetric", "tf_half_pixel_for_nn")
"""Coordinate modes whose points follow from the scale alone."""


def _resizes_differently(call: OpCall) -> bool:
    """Return whether engines differ: in truncated integers, or in sizes that depend on a product's precision."""
    if not all(map(call.is_constant, range(1, len(call.inputs)))):
        return False
    x, scales = call.inputs[0], call.input(2)
    if (x.dtype.kind in "iu" and call["mode"] != "nearest") or call["nearest_mode"] == "simple":
        return True
    factors = () if scales is None else (float(f) for f in np.asarray(scales).reshape(-1))
    pairs = zip(call["axes"] or range(len(x.shape)), factors)
    return any(scaled_size(x.shape[a], f) != math.floor(x.shape[a] * f) for a, f in pairs)


@meaning("Resize", replaces=_resizes_differently)
def _resize(
    call: OpCall, x: Array, roi: Any = None, scales: Array | None = None, sizes: Array | None = None
) -> Array:
    """Return the resized input by anylayer.ops.resize when points follow from sizes or scales alone.

    "align_corners" uses the length of the output, as the specification, PyTorch and every engine do. The reference
    implementation of onnx 1.23 uses the length times the scale, which may be a fraction.
    """
    sizes_of_axes = _sizes(call, x, scales, sizes)
    if sizes_of_axes is None:
        raise NoMeaning
    axes, new, factors = sizes_of_axes
    rule, mode = call["coordinate_transformation_mode"], call["mode"]
    if rule == "align_corners" and not call["antialias"]:
        factors = None
    if factors is not None and (call["antialias"] or rule not in _BY_SCALE):
        raise NoMeaning
    box = None
    if rule == "tf_crop_and_resize":
        box = [float(v) for v in np.asarray(roi).reshape(-1)]
    return ops.resize(
        x,
        new,
        axes=axes,
        mode=mode,
        coordinates=rule,
        nearest=call["nearest_mode"],
        cubic_a=call["cubic_coeff_a"],
        exclude_outside=bool(call["exclude_outside"]),
        antialias=bool(call["antialias"]),
        roi=box,
        extrapolation=call["extrapolation_value"],
        scales=factors,
    )


def _sizes(
    call: OpCall, x: Array, scales: Array | None, sizes: Array | None
) -> tuple[list[int], list[int], list[float] | None] | None:
    """Return the axes, their new sizes, and the scales when they are not new / old.

    Return None when the sizes keep an aspect ratio.
    """
    axes = [a % len(x.shape) for a in call["axes"] or range(len(x.shape))]
    old = [x.shape[a] for a in axes]
    if sizes is not None and np.size(sizes):
        if (call["keep_aspect_ratio_policy"] or "stretch") != "stretch":
            return None
        return axes, [int(v) for v in np.asarray(sizes)], None
    factors = [float(v) for v in np.asarray(scales).reshape(-1)]
    need(len(factors) == len(axes), f"scales must be {len(axes)} numbers, got {len(factors)}")
    new = [scaled_size(n, f) for n, f in zip(old, factors)]
    exact = all(n * f == m for n, f, m in zip(old, factors, new))
    return axes, new, None if exact else factors


def _shape_of_deform_conv(call: OpCall) -> Sequence[Any]:
    x, weights, offset = call.inputs[:3]
    sizes = x.shape[2:]
    rank = len(sizes)
    pads, steps, dilations = (
        call[n] or [d] * 2 * rank for n, d in (("pads", 0), ("strides", 1), ("dilations", 1))
    )
    for i, n in enumerate(sizes):
        count = (n + pads[i] + pads[i + rank] - extent(weights.shape[2 + i], dilations[i])) // steps[i] + 1
        need(
            offset.shape[2 + i] == count,
            f"offset of shape {tuple(offset.shape)} must have size {count} on axis {i + 2}",
        )
    return (x.shape[0], weights.shape[0], *offset.shape[2:])


def _shape_of_col2im(call: OpCall) -> Sequence[Any]:
    x, image, block = call.inputs
    return (x.shape[0], x.shape[1] // math.prod(integers(block, "block_shape")), *integers(image, "image_shape"))


SHAPES.update(DeformConv=_shape_of_deform_conv, Col2Im=_shape_of_col2im)


@meaning("Col2Im", arrays_only=True)
def _col2im(call: OpCall, x: Array, image: Array, block: Array) -> Array:
    """Add blocks, the columns of `x` (N, C * block, blocks), at their places in an image."""
    sizes, kernel = integers(image, "image_shape"), integers(block, "block_shape")
    axes = range(len(sizes))
    strides, dilations = (call[name] or [1] * len(sizes) for name in ("strides", "dilations"))
    pads = call["pads"] or [0] * 2 * len(sizes)
    padded = [n + pads[i] + pads[i + len(sizes)] for i, n in enumerate(sizes)]
    counts = [(padded[i] - extent(kernel[i], dilations[i])) // strides[i] + 1 for i in axes]
    n, rows, columns = x.shape
    need(
        min(counts) >= 1 and columns == math.prod(counts) and rows % math.prod(kernel) == 0,
        f"blocks of shape {kernel} in an image of shape {sizes} are {counts}, but the input is {tuple(x.shape)}",
    )
    blocks = x.reshape(n, -1, *kernel, *counts)
    y = np.zeros((*blocks.shape[:2], *padded), x.dtype)
    for at in np.ndindex(*kernel):
        first = [at[i] * dilations[i] for i in axes]
        places = tuple(slice(first[i], first[i] + counts[i] * strides[i], strides[i]) for i in axes)
        y[:, :, *places] += blocks[:, :, *at]
    return y[:, :, *(slice(pads[i], pads[i] + sizes[i]) for i in axes)]


@meaning("DeformConv", arrays_only=True)
def _deform_conv(
    call: OpCall, x: Array, w: Array, offset: Array, b: Array | None = None, mask: Any = None
) -> Array:
    return deformable_convolution(
        x, offset, w, b, mask, strides=call["strides"] or (1, 1), dilations=call["dilations"] or (1, 1),
        pads=pad_pairs(call["pads"] or 0, 2), group=call["group"], offset_group=call["offset_group"],
    )  # fmt: skip


@meaning("GridSample")
def _grid_sample(call: OpCall, x: Array, grid: Array) -> Array:
    modes = {"bilinear": "linear", "bicubic": "cubic"}
    if len(x.shape) != 4:
        return sampled_volume(call, x, grid, modes.get(call["mode"], call["mode"]))
    return ops.grid_sample(
        x,
        grid,
        mode=modes.get(call["mode"], call["mode"]),
        padding=call["padding_mode"],
        align_corners=bool(call["align_corners"]),
    )


@meaning("RoiAlign")
def _roi_align(call: OpCall, x: Any, rois: Any, batch: Any) -> Any:
    """Average the samples in each bin. "max" is not covered: ONNX means weighted cells, anylayer.ops samples."""
    if call["mode"] != "avg":
        raise NoMeaning
    return ops.roi_align(
        x,
        rois,
        batch,
        size=(call["output_height"], call["output_width"]),
        spatial_scale=call["spatial_scale"],
        sampling_ratio=call["sampling_ratio"],
        mode=call["mode"],
        half_pixel=call["coordinate_transformation_mode"] == "half_pixel",
    )


@meaning("NonMaxSuppression")
def _nms(call: OpCall, boxes: Any, scores: Any, limit: Any = None, iou: Any = None, lowest: Any = None) -> Array:
    def number(value: Any, default: Any) -> Any:
        return default if value is None else np.asarray(value).reshape(-1)[0]

    per_class = int(number(limit, 0))
    if per_class <= 0:
        return np.zeros((0, 3), np.int64)
    if call["center_point_box"]:
        boxes = corners(boxes[..., :2], boxes[..., 2:])
    threshold = None if lowest is None else float(number(lowest, 0))
    selected, count = ops.nms(
        boxes, scores, max_per_class=per_class, iou_threshold=float(number(iou, 0.0)), score_threshold=threshold
    )
    return selected[: int(count)]


@meaning("AffineGrid", recorded=True)
def _affine_grid(call: OpCall, theta: Array, size: Array) -> Array:
    """Return the points (x, y) or (x, y, z) at which GridSample samples for an affine transform per sample."""
    sizes = integers(size, "size")[2:]
    axes = len(sizes)
    shape = tuple(theta.shape)
    need(
        axes in (2, 3) and shape[1:] == (axes, axes + 1),
        f"theta must be of shape (N, 2, 3) for pictures and (N, 3, 4) for volumes, got {shape} for {axes} axes",
    )
    corners = bool(call["align_corners"])
    need(
        not corners or all(n != 1 for n in sizes),
        "with align_corners=1, programs differ in the point of an axis of size 1: PyTorch has 0, ONNX Runtime 1, "
        "and the reference implementation -1. Set align_corners=0, or more than one cell along each axis",
    )
    result = theta[:, :, axes].reshape(-1, *[1] * axes, axes)
    for i, n in enumerate(sizes):
        steps = np.arange(n).astype(theta.dtype)
        points = steps * (2 / (n - 1)) - 1 if corners else (steps * 2 + 1) / n - 1
        column = theta[:, :, axes - 1 - i].reshape(-1, *[1] * axes, axes)
        result = result + points.astype(theta.dtype).reshape(-1, *[1] * (axes - i)) * column
    return result


def sampled_volume(call: OpCall, x: Array, grid: Array, mode: str) -> Any:
    """Sample `x` (N, C, D, H, W) at the points `grid` (N, d, h, w, 3): the result is (N, C, d, h, w)."""
    n, c, *sizes = x.shape
    need(
        len(sizes) == 3 and len(grid.shape) == 5 and grid.shape[0] == n and grid.shape[4] == 3,
        f"takes a grid of shape (N, d, h, w, 3) for an input (N, C, D, H, W), got {tuple(grid.shape)} and "
        f"{tuple(x.shape)}",
    )
    need(mode in ("linear", "nearest"), f"mode of a volume must be linear or nearest, got {mode!r}")
    rules = mode, call["padding_mode"], bool(call["align_corners"])
    taps_of_axes = [list(taps(on_axis(grid[..., 2 - i], d, *rules), d, *rules)) for i, d in enumerate(sizes)]
    cells = x.transpose(0, 2, 3, 4, 1).reshape(-1, c)
    first = (np.arange(n) * math.prod(sizes)).reshape(-1, 1, 1, 1)
    total: Any = 0
    for (z, a), (y, b), (w, e) in product(*taps_of_axes):
        total = total + cells[first + (z * sizes[1] + y) * sizes[2] + w] * (a * b * e)[..., None]
    return total.astype(x.dtype).transpose(0, 4, 1, 2, 3)
