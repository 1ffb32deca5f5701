"""Operators that move elements: reshapes, transpositions, concatenation, slices, padding."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from anylayer.generators.pytorch.code import Code, dtype_of, first, in_tuple, is_dynamic, number
from anylayer.generators.pytorch.operators import formulas, writes
from anylayer.graph import Op
from anylayer.graph.facts import integers, padding_of
from anylayer.graph.facts import number as number_of
from anylayer.graph.sizes import Dim, is_static
from anylayer.writers._target import present, require


@writes("Reshape", "Flatten", "Squeeze", "Unsqueeze", unread=(1,))
def _reshape(code: Code, op: Op) -> str:
    return f"{code.tensor(first(op))}.reshape({code.sizes(op.outputs[0].shape, inferred=True)})"


@writes("Transpose")
def _transpose(code: Code, op: Op) -> str:
    x = first(op)
    order = op["perm"] or range(len(x.shape))[::-1]
    return f"{code.tensor(x)}.permute({', '.join(str(int(a)) for a in order)})"


@writes("Concat")
def _concat(code: Code, op: Op) -> str:
    axis = op["axis"] % len(op.outputs[0].shape)
    return f"torch.cat({in_tuple(map(code.tensor, op.inputs))}, dim={axis})"


@writes("Split", unread=(1,))
def _split(code: Code, op: Op) -> list[str]:
    axis = op["axis"] % len(first(op).shape)
    sizes = [v.shape[axis] for v in op.outputs]
    require(is_static(sizes), "a Split along an axis whose size depends on data")
    names = [code.new(v.name) for v in op.outputs]
    code.line(
        f"{', '.join(names)}, = torch.split({code.tensor(first(op))}, {[int(d) for d in sizes]}, dim={axis})"
    )
    return names


formulas({"Expand": "torch.broadcast_to({0}, {shape})"}, unread=(1,))
formulas({"Size": "torch.tensor({0}.numel())"})


@writes("Tile", unread=(1,))
def _tile(code: Code, op: Op) -> str:
    """Repeat each axis by the ratio of the output's size to the input's. Dynamic sizes are not supported."""
    x, y = first(op), op.outputs[0]
    counts = integers(op.inputs[1])
    if counts is None:
        require(0 not in x.shape, "a Tile of an empty array")
        counts = [_times(code, new, old) for new, old in zip(y.shape, x.shape)]
    return f"{code.tensor(x)}.repeat({in_tuple(map(str, counts))})"


def _times(code: Code, new: Any, old: Any) -> Any:
    ratio = new // old if isinstance(new, Dim) or not isinstance(old, Dim) else None
    require(ratio is not None, "a Tile of a size that depends on data")
    return code.size(ratio)


@writes("Shape")
def _shape(code: Code, op: Op) -> str:
    shape, x = first(op).shape, code.tensor(first(op))
    axes = range(len(shape))[slice(op["start"], op["end"])]
    sizes = [f"{x}.shape[{a}]" if is_dynamic(shape[a]) else str(int(shape[a])) for a in axes]
    return f"torch.tensor([{', '.join(sizes)}])"


@writes("Range")
def _range(code: Code, op: Op) -> str:
    start, limit, delta = (f"{code.tensor(v)}.item()" for v in op.inputs)
    return f"torch.arange({start}, {limit}, {delta}, dtype={dtype_of(op.outputs[0].dtype)})"


@writes("Slice")
def _slice(code: Code, op: Op) -> str:
    x = first(op)
    starts, ends, axes, steps = (*map(integers, op.inputs[1:]), None, None)[:4]
    if starts is not None and ends is None and axes is not None and steps in (None, [1]) and len(axes) == 1:
        before = ":, " * (axes[0] % len(x.shape))
        return f"{code.tensor(x)}[{before}{starts[0] or ''}:int({code.tensor(op.inputs[2])})]"
    if axes is not None and steps == [-1] * len(axes) and op.outputs[0].shape == x.shape:
        return f"torch.flip({code.tensor(x)}, {in_tuple(sorted(str(a % len(x.shape)) for a in axes))})"
    starts, ends = (present(bounds, "a Slice whose bounds are computed") for bounds in (starts, ends))
    axes = list(range(len(starts))) if axes is None else [a % len(x.shape) for a in axes]
    steps = [1] * len(starts) if steps is None else steps
    cut = [":"] * len(x.shape)
    flipped = []
    for axis, start, end, step in zip(axes, starts, ends, steps):
        if step < 0:
            require(is_static([x.shape[axis]]), "a Slice with a negative step along a dynamic axis")
            chosen = range(x.shape[axis])[start : _end(end, x.shape[axis]) : step][::-1]
            flipped.append(axis)
            start, end, step = (chosen[0], chosen[-1] + 1, chosen.step) if len(chosen) else (0, 0, 1)
        cut[axis] = _cut(start, end, step, x.shape[axis])
    text = code.tensor(x)
    if any(c != ":" for c in cut):
        text = f"{text}[{', '.join(_trimmed(cut))}]"
    return f"torch.flip({text}, {in_tuple(map(str, sorted(flipped)))})" if flipped else text


def _end(end: int, size: int) -> int | None:
    """Return the end of a slice with a negative step; None where it includes the first element."""
    return None if end < -size else end


def _cut(start: int, end: int, step: int, size: Any) -> str:
    to = "" if (not isinstance(size, Dim) and end >= size) or end >= 2**31 - 1 else str(end)
    return f"{start or ''}:{to}" + (f":{step}" if step != 1 else "")


def _trimmed(cut: Sequence[str]) -> list[str]:
    """Remove the slices ":" after the last axis that is cut: `x[1:, :, :]` is written as `x[1:]`."""
    last = max(i for i, c in enumerate(cut) if c != ":")
    return list(cut[: last + 1])


_MODES = {"edge": "replicate", "reflect": "reflect", "wrap": "circular"}


@writes("Pad", unread=(1, 2, 3))
def _pad(code: Code, op: Op) -> str:
    x, found = first(op), padding_of(op)
    if found is None:
        return _padded_to_shape(code, op)
    mode = op["mode"]
    amounts = list(zip(found.begins, found.ends))
    if mode == "constant":
        return padded(code.tensor(x), amounts, number(np.dtype(x.dtype).type(found.value)))
    require(mode in _MODES, f"the mode '{mode}'")
    free = [i for i, a in enumerate(amounts) if a != (0, 0)]
    spatial = len(x.shape) - 2
    planar = spatial in (1, 2, 3) and x.dtype.kind == "f" and min(free, default=2) >= 2
    if planar and min(map(min, amounts)) >= 0 and mode != "wrap":
        flat = [str(n) for begin, end in amounts[:1:-1] for n in (begin, end)]
        return f'F.pad({code.tensor(x)}, {in_tuple(flat)}, mode="{_MODES[mode]}")'
    return _selected(code, op, amounts, mode)


def _padded_to_shape(code: Code, op: Op) -> str:
    """Pad the axes with dynamic sizes at their end, up to the static sizes of the output."""
    x, y, value = first(op), op.outputs[0].shape, 0.0 if op.input(2) is None else number_of(op.input(2))
    producer = code.producers.get(op.inputs[1]) if op.inputs[1] is not None else None
    begins = producer.inputs[0].const if producer is not None and producer.inputs[0] is not None else None
    known = begins is not None and begins.size >= len(x.shape) and not begins.any()
    require(known and value is not None and not any(map(is_dynamic, y)), "a Pad whose amounts are computed")
    data = code.tensor(x)
    amounts = [f"{int(new)} - {data}.shape[{a}]" if is_dynamic(x.shape[a]) else "0" for a, new in enumerate(y)]
    flat = [part for end in amounts[::-1] for part in ("0", end)]
    return f"F.pad({data}, {in_tuple(flat)}, value={number(np.dtype(x.dtype).type(value))})"


def padded(x: str, amounts: Sequence[tuple[int, int]], value: str = "0.0") -> str:
    """Return code that pads each axis with a number before and after, or crops where an amount is negative."""
    first_axis = next((i for i, a in enumerate(amounts) if tuple(a) != (0, 0)), None)
    if first_axis is None:
        return x
    flat = [
        str(n) for begin, end in list(amounts)[: first_axis - 1 if first_axis else None : -1] for n in (begin, end)
    ]
    return f"F.pad({x}, {in_tuple(flat)}{'' if value in ('0.0', '0') else f', value={value}'})"


def _selected(code: Code, op: Op, amounts: Sequence[tuple[int, int]], mode: Any) -> str:
    """Pad by selecting elements with one index array per axis."""
    text = code.tensor(first(op))
    for axis, (begin, end) in enumerate(amounts):
        if (begin, end) == (0, 0):
            continue
        size = first(op).shape[axis]
        require(is_static([size]), "a Pad of a dynamic axis that repeats elements")
        before, after = max(begin, 0), max(end, 0)
        cells = np.pad(np.arange(size)[max(-begin, 0) : size - max(-end, 0)], (before, after), mode)
        text = f"{text}.index_select({axis}, {code.array(cells, 'indices')})"
    return text


@writes("DepthToSpace")
def _depth_to_space(code: Code, op: Op) -> str:
    b = int(op["blocksize"])
    x = first(op)
    if op["mode"] == "CRD":
        return f"F.pixel_shuffle({code.tensor(x)}, {b})"
    n, _, h, w = map(code.size, x.shape)
    parts = f"({n}, {b}, {b}, {int(x.shape[1]) // (b * b)}, {h}, {w})"
    return _arranged(code, op, parts, "0, 3, 4, 1, 5, 2")


@writes("SpaceToDepth")
def _space_to_depth(code: Code, op: Op) -> str:
    b = int(op["blocksize"])
    n, c, h, w = first(op).shape
    parts = in_tuple([code.size(n), str(int(c)), code.size(h // b), str(b), code.size(w // b), str(b)])
    return _arranged(code, op, parts, "0, 3, 5, 1, 2, 4")


def _arranged(code: Code, op: Op, parts: str, order: str) -> str:
    whole = code.sizes(op.outputs[0].shape)
    return f"{code.tensor(first(op))}.reshape({parts}).permute({order}).reshape({whole})"


@writes("Trilu", unread=(1,))
def _triangle(code: Code, op: Op) -> str:
    k = [0] if op.input(1) is None else integers(op.input(1))
    (diagonal,) = present(k, "a Trilu whose diagonal is computed")
    return f"torch.{'triu' if op['upper'] else 'tril'}({code.tensor(first(op))}, {diagonal})"


@writes("ConstantOfShape", unread=(0,))
def _filled(code: Code, op: Op) -> str:
    y = op.outputs[0]
    value = np.asarray(np.float32(0) if op["value"] is None else op["value"]).reshape(-1)[0]
    return f"torch.full({code.sizes(y.shape)}, {number(value)}, dtype={dtype_of(y.dtype)})"
