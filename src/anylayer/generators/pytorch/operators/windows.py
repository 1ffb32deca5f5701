"""Operators with windows: convolutions, pooling, resizing, sampling."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from anylayer.generators.pytorch.code import Code, dtype_of, first, in_tuple
from anylayer.generators.pytorch.operators import formulas, writes
from anylayer.generators.pytorch.operators.movement import padded
from anylayer.graph import Op, Value
from anylayer.graph.facts import Window, repetition, window_of
from anylayer.graph.sizes import is_static
from anylayer.network import Array
from anylayer.ops._interpolation import Interpolation, as_matrix, interpolation_of, taps
from anylayer.writers._target import present, require


def _window(op: Op) -> Window:
    found = present(window_of(op), "automatic padding")
    require(len(found.kernel) in (1, 2, 3), f"windows with {len(found.kernel)} axes")
    return found


def _sizes(numbers: Sequence[int]) -> str:
    """Return one number per axis, or a single number where all are equal."""
    return str(numbers[0]) if len(set(numbers)) == 1 else str(tuple(numbers))


def _options(**given: tuple[Sequence[int], int]) -> str:
    """Return the keyword arguments whose numbers differ from the default: name=(numbers, default)."""
    return "".join(f", {k}={_sizes(v)}" for k, (v, default) in given.items() if any(n != default for n in v))


def _spatial(window: Window) -> list[tuple[int, int]]:
    return [(0, 0), (0, 0), *zip(window.begins, window.ends)]


@writes("Conv")
def _conv(code: Code, op: Op) -> str:
    x, weight, bias = first(op), present(op.input(1)), op.input(2)
    window, group = _window(op), int(op["group"])
    n = len(window.kernel)
    data, pads = code.tensor(x), window.begins
    if window.begins != window.ends:
        data, pads = padded(data, _spatial(window)), [0] * n
    options = _options(
        stride=(window.strides, 1), padding=(pads, 0), dilation=(window.dilations, 1), groups=([group], 1)
    )
    channels = f"{int(weight.shape[1]) * group}, {weight.shape[0]}, {_sizes(window.kernel)}"
    return _weighted(code, f"Conv{n}d", f"F.conv{n}d", channels, options, data, weight, bias)


def _weighted(
    code: Code,
    module: str,
    function: str,
    channels: str,
    options: str,
    data: str,
    weight: Value,
    bias: Value | None,
) -> str:
    """Return a call of an nn module with constant weights, or of the function with computed ones."""
    values = [weight] if bias is None else [weight, bias]
    if any(v.const is None or v.dtype != np.float32 for v in values):
        terms = ", ".join([data, *(code.tensor(v, role) for v, role in zip(values, ("weight", "bias")))])
        return f"{function}({terms}{options})"
    state = {name: np.asarray(v.const) for v, name in zip(values, ("weight", "bias"))}
    text = f"nn.{module}({channels}{options}{', bias=False' if bias is None else ''})"
    return f"{code.module(text, state, values)}({data})"


@writes("ConvTranspose")
def _conv_transpose(code: Code, op: Op) -> str:
    """Compute without padding and crop by `pads` if torch's own padding cannot express them."""
    x, weight, bias = first(op), present(op.input(1)), op.input(2)
    window, group = _window(op), int(op["group"])
    n = len(window.kernel)
    require(is_static(x.shape[2:]), "a ConvTranspose of a dynamic size")
    full = [(s - 1) * t + e for s, t, e in zip(x.shape[2:], window.strides, window.extents)]
    extra = [y - f + b + e for y, f, b, e in zip(op.outputs[0].shape[2:], full, window.begins, window.ends)]
    ends = [e - a for e, a in zip(window.ends, extra)]
    own = window.begins == window.ends and all(
        0 <= a < max(s, d) for a, s, d in zip(extra, window.strides, window.dilations)
    )
    require(
        own or min(ends) >= 0 or bias is None, "a ConvTranspose with more output padding than it computes cells"
    )
    options = _options(
        stride=(window.strides, 1),
        padding=(window.begins if own else [0] * n, 0),
        output_padding=(extra if own else [0] * n, 0),
        groups=([group], 1),
        dilation=(window.dilations, 1),
    )
    channels = f"{weight.shape[0]}, {int(weight.shape[1]) * group}, {_sizes(window.kernel)}"
    names = f"ConvTranspose{n}d", f"F.conv_transpose{n}d"
    found = _weighted(code, *names, channels, options, code.tensor(x), weight, bias)
    if own:
        return found
    return padded(found, [(0, 0), (0, 0), *((-b, -e) for b, e in zip(window.begins, ends))])


def _torch_sizes(x: Value, window: Window, ceil: bool) -> list[int]:
    """Return the output sizes that torch computes for a pooling with equal padding at both ends."""
    found = []
    for size, extent, stride, pad in zip(x.shape[2:], window.extents, window.strides, window.begins):
        span = size + 2 * pad - extent
        out = -(-span // stride) + 1 if ceil else span // stride + 1
        found.append(out - (ceil and (out - 1) * stride >= size + pad))
    return found


def _rounding(op: Op, window: Window) -> str | None:
    """Return the option that rounds sizes as the operator does; None where torch's padding cannot express it."""
    x, wanted = first(op), list(op.outputs[0].shape[2:])
    require(is_static(x.shape[2:]), "a pooling of a dynamic size")
    if window.begins != window.ends or any(2 * p > k for p, k in zip(window.begins, window.kernel)):
        return None
    if _torch_sizes(x, window, False) == wanted:
        return ""
    return ", ceil_mode=True" if _torch_sizes(x, window, True) == wanted else None


def _overhang(op: Op, window: Window) -> list[tuple[int, int]]:
    """Return the padding (before, after) per spatial axis with which no window exceeds the padded input."""
    sizes = zip(first(op).shape[2:], op.outputs[0].shape[2:], window.strides, window.extents, window.begins)
    return [(begin, (out - 1) * stride + extent - size - begin) for size, out, stride, extent, begin in sizes]


@writes("MaxPool")
def _max_pool(code: Code, op: Op) -> str | list[str]:
    x, window = first(op), _window(op)
    require(x.dtype.kind == "f", "a MaxPool of integers")
    n, rounding = len(window.kernel), _rounding(op, window)
    data, pads = code.tensor(x), window.begins
    several = len(op.outputs) > 1
    if rounding is None:
        require(not several, "the indices of a MaxPool with this padding")
        data = padded(data, [(0, 0), (0, 0), *_overhang(op, window)], 'float("-inf")')
        rounding, pads = "", [0] * n
    options = _options(padding=(pads, 0), dilation=(window.dilations, 1)) + rounding
    text = f"F.max_pool{n}d({data}, {_sizes(window.kernel)}, {_sizes(window.strides)}{options}"
    if not several:
        return f"{text})"
    require(not op["storage_order"], "MaxPool indices in column-major order")
    values, cells = code.new("values"), code.new("cells")
    code.line(f"{values}, {cells} = {text}, return_indices=True)")
    planes = code.size(x.shape[0]) + f" * {x.shape[1]}"
    shape = in_tuple([code.size(x.shape[0]), str(x.shape[1]), *["1"] * n])
    return [values, f"{cells} + torch.arange({planes}).reshape({shape}) * {math.prod(x.shape[2:])}"]


@writes("AveragePool")
def _average_pool(code: Code, op: Op) -> str:
    x, window = first(op), _window(op)
    n, rounding = len(window.kernel), _rounding(op, window)
    counted = bool(op["count_include_pad"])
    plain = all(d == 1 for d in window.dilations)
    require(plain, "an AveragePool with dilations")
    head = f"F.avg_pool{n}d("
    if rounding is not None:
        options = _options(padding=(window.begins, 0)) + rounding
        options += "" if counted or not any(window.begins) else ", count_include_pad=False"
        return f"{head}{code.tensor(x)}, {_sizes(window.kernel)}, {_sizes(window.strides)}{options})"
    data = padded(code.tensor(x), [(0, 0), (0, 0), *_overhang(op, window)])
    factors = code.array(_shares(op, window, counted).astype(x.dtype), "shares")
    return f"{head}{data}, {_sizes(window.kernel)}, {_sizes(window.strides)}) * {factors}"


def _shares(op: Op, window: Window, counted: bool) -> Array:
    """Return, per window, the number of all cells divided by the number of cells in the average."""
    total = np.ones(())
    outs = op.outputs[0].shape[2:]
    for axis, size in enumerate(first(op).shape[2:]):
        begin, end = window.begins[axis], window.ends[axis]
        low, high = (-begin, size + end) if counted else (0, size)
        starts = np.arange(outs[axis]) * window.strides[axis] - begin
        inside = np.minimum(starts + window.kernel[axis], high) - np.maximum(starts, low)
        total = total[..., None] * (window.kernel[axis] / np.maximum(inside, 1))
    return total


_GLOBAL = {"GlobalAveragePool": "mean", "GlobalMaxPool": "amax"}
formulas({op: f"torch.{name}({{0}}, dim={{rest}}, keepdim=True)" for op, name in _GLOBAL.items()})


@writes("MaxUnpool", unread=(2,))
def _max_unpool(code: Code, op: Op) -> str:
    y = op.outputs[0]
    total = " * ".join(map(code.size, y.shape))
    zeros = f"torch.zeros({total}, dtype={dtype_of(y.dtype)})"
    flat = f"{code.tensor(op.inputs[1])}.reshape(-1), {code.tensor(first(op))}.reshape(-1)"
    return f"{zeros}.scatter(0, {flat}).reshape({code.sizes(y.shape)})"


_SAME_WEIGHT = 1e-6
"""The largest difference of weights of an interpolation from those of torch."""


@writes("Resize", unread=(1, 2, 3))
def _resize(code: Code, op: Op) -> str:
    """Call F.interpolate where torch computes the same cells and weights. Otherwise resize axis by axis with those
    of NumPy, because torch rounds positions early.
    """
    x, y, rule = first(op), op.outputs[0], interpolation_of(op)
    require(rule.coordinates != "tf_crop_and_resize", f"a Resize with coordinates '{rule.coordinates}'")
    axes = [i for i, (a, b) in enumerate(zip(x.shape, y.shape)) if a is not b and a != b]
    require(is_static([d for a in axes for d in (x.shape[a], y.shape[a])]), "a Resize of a dynamic size")
    scales = _scales(op)
    planar = len(x.shape) == 4 and min(axes, default=2) >= 2 and x.dtype.kind == "f"
    if planar and not scales and (mode := _torch_mode(rule, [(x.shape[a], y.shape[a]) for a in axes])):
        return f"F.interpolate({code.tensor(x)}, {in_tuple(map(code.size, y.shape[2:]))}, mode={mode})"
    text = code.tensor(x)
    for axis in axes:
        cells, weights = taps(rule, x.shape[axis], y.shape[axis], None, scales.get(axis))
        shares = None if weights is None else weights.astype(x.dtype)
        text = _resampled(code, text, axis, len(x.shape), cells, shares)
    return text


def _torch_mode(rule: Interpolation, sizes: Sequence[tuple[int, int]]) -> str:
    """Return the arguments by which F.interpolate resizes axes (old, new) as `rule`; "" if there are none."""
    if rule.mode == "nearest":  # torch's "nearest" is wrong for factor 41
        repeated = all(repetition(taps(rule, old, new)[0][:, 0], old) for old, new in sizes)
        return '"nearest-exact"' if repeated else ""
    if rule.mode != "linear" or rule.antialias or rule.coordinates not in ("half_pixel", "align_corners"):
        return ""
    for old, new in sizes:
        ours, torchs = (as_matrix(*taps(r, old, new), old) for r in (rule, rule._replace(by_step=True)))
        if np.abs(ours - torchs).max() > _SAME_WEIGHT:
            return ""
    return '"bilinear"' + (", align_corners=True" if rule.coordinates == "align_corners" else "")


def _scales(op: Op) -> dict[int, float]:
    """Return the scale of each axis if the operator is given scales instead of sizes."""
    value = op.input(2)
    if value is None or value.shape == (0,):
        return {}
    require(value.const is not None, "a Resize whose scales are computed")
    named = op["axes"] or range(len(first(op).shape))
    return {int(a) % len(first(op).shape): float(s) for a, s in zip(named, np.asarray(value.const))}


def _resampled(code: Code, text: str, axis: int, rank: int, cells: Array, weights: Array | None) -> str:
    """Return an expression for the weighted sums of selected cells of the array `text` along an axis."""
    if weights is None:
        return f"{text}.index_select({axis}, {code.array(np.ascontiguousarray(cells[:, 0]), 'cells')})"
    shape = (-1, *(1,) * (rank - axis - 1))
    terms = []
    for tap in range(cells.shape[1]):
        at = code.array(np.ascontiguousarray(cells[:, tap]), "cells")
        share = code.array(np.ascontiguousarray(weights[:, tap]).reshape(shape), "weights")
        terms.append(f"{text}.index_select({axis}, {at}) * {share}")
    name = code.new("resized")
    code.line(f"{name} = {' + '.join(terms)}")
    return name


@writes("BilinearSample")
def _sample(code: Code, op: Op) -> str:
    """Write the samples that `forms` recognized as torch's grid_sample. If `pad` is set, a row and a column of
    zeros are added at the end, because the layer's coordinates span the map including them.
    """
    x, points = code.tensor(first(op)), code.new("points")
    code.line(
        f"{points} = {code.tensor(op.inputs[1])}.flip(1).permute(0, 2, 1).unsqueeze(1)  # (N, 1, P, x and y)"
    )
    data = f"F.pad({x}, (0, 1, 0, 1))" if op.attrs.get("pad") else x
    return f"F.grid_sample({data}, {points}, align_corners={op.attrs['align_corners']}).squeeze(2)"


@writes("GridSample")
def _grid_sample(code: Code, op: Op) -> str:
    mode = {"linear": "bilinear", "cubic": "bicubic"}.get(op["mode"], op["mode"])
    padding = op["padding_mode"]
    require(mode in ("bilinear", "bicubic", "nearest"), f"the mode '{mode}'")
    require(padding in ("zeros", "border", "reflection"), f"the padding '{padding}'")
    terms = f"{code.tensor(first(op))}, {code.tensor(op.inputs[1])}"
    corners = bool(op["align_corners"])
    return f'F.grid_sample({terms}, mode="{mode}", padding_mode="{padding}", align_corners={corners})'
