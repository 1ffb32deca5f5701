"""NumPy meanings of operators that move elements, and of those that make arrays from sizes."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from anylayer import ops
from anylayer.errors import ShapeError, TraceError, need
from anylayer.layer.arguments import axes_in, integers, reshape, shape_of, slice_axes, target_shape
from anylayer.layers._arrays import one_hot
from anylayer.layers.onnx._call import ANY_SIZE, SPELLED_OUT, OpCall, meaning, meanings, of
from anylayer.network import MAX_RANK, MAX_VALUES, Array


def _need_room(shape: Any) -> None:
    """Refuse negative sizes and arrays with more elements than the limit."""
    need(all(d >= 0 for d in shape), f"sizes must be 0 or more, got {tuple(shape)}")
    count = math.prod(int(d) for d in shape)
    need(
        count <= MAX_VALUES,
        f"the output {tuple(shape)} would have {count} elements, at most {MAX_VALUES} are supported",
    )


meanings(
    {
        "Identity": lambda x: x,
        "Shape": lambda x, *, start=0, end=None: shape_of(x, np.int64)[start:end],
        "Size": lambda x: shape_of(x, np.int64).prod(),
    },
    recorded=True,
)


def _check_reshape(call: OpCall) -> None:
    """Refuse a static shape with another number of elements; ONNX's shape inference accepts it."""
    x, shape = call.inputs
    if call.is_constant(1):
        target_shape(x.shape, integers(shape, "shape"), "shape", None if call["allowzero"] else x.shape)


SPELLED_OUT["Reshape"] = _check_reshape


@meaning("Reshape")
def _reshape(call: OpCall, x: Array, shape: Array) -> Array:
    return reshape(x, integers(shape, "shape"), "shape", None if call["allowzero"] else x.shape)


def _flatten(x: Array, *, axis: int) -> Array:
    axis = axis if axis >= 0 else axis + len(x.shape)
    return x.reshape(math.prod(x.shape[:axis]), math.prod(x.shape[axis:]))


def _is_scalar(call: OpCall) -> bool:
    return not call.inputs[0].shape


meanings({"Transpose": lambda x, *, perm=None: x.transpose(perm) if x.shape else x}, replaces=_is_scalar)
meanings(
    {
        "Flatten": _flatten,
        "Gather": lambda x, indices, *, axis: np.asarray(np.take(x, indices, axis)),
        "Squeeze": lambda x, axes=None: x.squeeze(None if axes is None else tuple(integers(axes, "axes"))),
        "Unsqueeze": lambda x, axes: np.expand_dims(x, tuple(integers(axes, "axes"))),
    }
)


@meaning("Concat")
def _concat(call: OpCall, *inputs: Any) -> Array:
    """Concatenate inputs. Those without elements along the axis are left out: their other sizes are constants."""
    axis = call["axis"]
    filled = [x for x in inputs if not (type(x.shape[axis]) is int and x.shape[axis] == 0)]
    return np.concatenate(filled or inputs, axis)


@meaning("Split")
def _split(call: OpCall, x: Array, sizes: Array | None = None) -> list[Array]:
    axis, count = call["axis"], call["num_outputs"]
    if sizes is None:
        need(count, "needs the sizes or the number of the parts, both are missing")
        each = -(-x.shape[axis] // count)
        parts = [each] * (count - 1) + [x.shape[axis] - each * (count - 1)]
    else:
        parts = integers(sizes, "split")
    need(
        sum(parts) == x.shape[axis] and min(parts, default=0) >= 0,
        f"the parts {parts} do not add up to the size {x.shape[axis]} of axis {axis}",
        ShapeError,
    )
    return np.split(x, np.cumsum(parts)[:-1], axis)


@meaning("Slice")
def _slice(
    call: OpCall, x: Array, starts: Array, ends: Array, axes: Array | None = None, steps: Any = None
) -> Array:
    over = list(range(starts.shape[0])) if axes is None else axes_in(x, axes)
    return slice_axes(x, over, starts, ends, np.ones(len(over), np.int64) if steps is None else steps)


meaning("GatherElements")(of(ops.gather_elements, "axis"))
meaning("ScatterElements")(of(ops.scatter_elements, "axis", "reduction"))
meaning("ScatterND")(of(ops.scatter_nd, "reduction"))


@meaning("GatherND")
def _gather_nd(call: OpCall, x: Any, indices: Any) -> Any:
    b, last = call["batch_dims"], indices.shape[-1]
    lead = math.prod(indices.shape[:b])
    flat = x.reshape(lead, *x.shape[b:])
    rows = indices.reshape(lead, -1, last)
    where = np.arange(lead)[:, None]
    key = (where, *(rows[..., i] for i in range(last)))
    selected = flat[key]
    return selected.reshape(*indices.shape[:-1], *x.shape[b + last :])


@meaning("Expand")
def _expand(call: OpCall, x: Any, shape: Any) -> Any:
    sizes = tuple(integers(shape, "shape"))
    need(len(sizes) <= MAX_RANK, f"its shape has {len(sizes)} axes; the limit is {MAX_RANK}")
    target = np.broadcast_shapes(x.shape, sizes)
    _need_room(target)
    return np.broadcast_to(x, target)


@meaning("Tile")
def _tile(call: OpCall, x: Any, repeats: Any) -> Any:
    times = integers(repeats, "repeats")
    need(len(times) == len(x.shape), f"repeats must be {len(x.shape)} numbers, got {len(times)}")
    _need_room([n * t for n, t in zip(x.shape, times)])
    return np.tile(x, times)


@meaning("Pad", replaces=_is_scalar)
def _pad(call: OpCall, x: Array, pads: Array, value: Array | None = None, axes: Any = None) -> Array:
    where = list(range(len(x.shape))) if axes is None else integers(axes, "axes")
    both = integers(pads, "pads")
    need(len(both) == 2 * len(where), f"pads must be {2 * len(where)} numbers, got {len(both)}")
    pairs = [(0, 0)] * len(x.shape)
    for i, axis in enumerate(where):
        pairs[axis] = (both[i], both[i + len(where)])
    mode = call["mode"]
    need(
        mode in ("constant", "reflect", "edge", "wrap"),
        f"mode must be one of constant, reflect, edge, wrap, got {mode!r}",
    )
    key = tuple(slice(max(-b, 0), n - max(-e, 0)) for n, (b, e) in zip(x.shape, pairs))
    x, pairs = x[key], [(max(b, 0), max(e, 0)) for b, e in pairs]
    _need_room([n + b + e for n, (b, e) in zip(x.shape, pairs)])
    if not pairs:
        return x
    if mode == "constant":
        fill = x.dtype.type(0) if value is None else np.asarray(value).reshape(())
        return np.pad(x, pairs, constant_values=fill)
    return np.pad(x, pairs, mode)


@meaning("ConstantOfShape")
def _constant_of_shape(call: OpCall, shape: Any) -> Any:
    value = call["value"]
    one = np.zeros(1, np.float32) if value is None else value
    size = tuple(integers(shape, "shape"))
    _need_room(size)
    return np.broadcast_to(one.reshape(()), size)


@meaning("Range")
def _range(call: OpCall, start: Any, limit: Any, delta: Any) -> Array:
    first, last, step = (np.asarray(v).reshape(()) for v in (start, limit, delta))
    need(step != 0, "delta must not be 0")
    limits = [float(v) for v in (first, last, step)]
    finite = all(np.isfinite(v) for v in (first, last, step))
    need(finite, f"its limits must be finite, got {', '.join(f'{v:g}' for v in limits)}")
    if first.dtype.kind == "f":
        count = max(0, math.ceil((limits[1] - limits[0]) / limits[2]))
    else:  # exact beyond 2**53
        count = max(0, -((int(first) - int(last)) // int(step)))
    _need_room((count,))
    return (first + np.arange(count).astype(first.dtype) * step).astype(first.dtype)


@meaning("OneHot")
def _one_hot(call: OpCall, indices: Any, depth: Any, values: Any) -> Any:
    count, axis = int(np.asarray(depth).reshape(())), call["axis"]
    whole = indices.astype(np.int64)
    _need_room((*whole.shape, count))
    return one_hot(np.where(whole < 0, whole + count, whole), count, axis, values[1], values[0])


def _no_training(call: OpCall) -> None:
    """Refuse a Dropout that drops elements."""
    ratio, training = call.input(1), call.input(2)
    trains = call.is_constant(2) and np.any(training)
    keeps_all = ratio is not None and call.is_constant(1) and not np.any(ratio)
    need(
        not trains or keeps_all,
        "training_mode is true, so its output is random. Give a network that was exported for inference",
    )


def _order(call: OpCall) -> None:
    rank = len(call.inputs[0].shape)
    perm = call.attrs["perm"] = call["perm"] or tuple(range(rank))[::-1]
    rule = f"perm {list(perm)} must be a permutation of the {rank} axes of the input"
    need(sorted(perm) == [*range(rank)], rule, ShapeError)


def _one_size_per_axis(call: OpCall) -> None:
    sizes, axes = call.inputs[1].shape, len(call["axes"] or call.inputs[0].shape)
    need(tuple(sizes) == (axes,), f"shape must have {axes} elements, one per axis, got {sizes[0]}")


SPELLED_OUT.update(CenterCropPad=_one_size_per_axis, Dropout=_no_training, Transpose=_order)
ANY_SIZE.update(("Dropout", "Transpose"))


@meaning("Dropout", recorded=True)
def _dropout(call: OpCall, x: Array, ratio: Any = None, training: Any = None) -> list[Array]:
    need(
        call.is_constant(2),
        "training_mode is computed from the network's inputs, but must be a constant",
        TraceError,
    )
    return [x] if call.outputs == 1 else [x, np.ones_like(x, dtype=bool)]
