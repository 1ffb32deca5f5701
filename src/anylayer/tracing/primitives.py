"""The basic operators of which all rules are composed.

Each accepts and returns a TracedArray, or a NumPy array if the inputs are constants: then NumPy computes, and
views stay views.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import DTypeLike

from anylayer.graph.guards import traces_symbolically
from anylayer.graph.ir import Op, Value
from anylayer.graph.operators import ELEMENTWISE, MOVES
from anylayer.graph.place import refusal
from anylayer.graph.sized import sized_array
from anylayer.graph.sizes import Dim, broadcast, is_one, is_static, reduced_shape, stand_for
from anylayer.graph.symbolic import (
    depends_on_data,
    is_symbolic,
    is_zero,
    plain,
    same,
    same_shape,
    symbolic_shape,
)
from anylayer.network import Array
from anylayer.tracing.array import TracedArray
from anylayer.tracing.dtypes import I4, I8, NATIVE, compute_dtype
from anylayer.tracing.python_numbers import PythonNumber
from anylayer.tracing.record import record, record_many, running_graph
from anylayer.tracing.size_arithmetic import held, hold

AxisArg = int | Sequence[int] | None
"""The `axis` argument of a NumPy function."""
_SCATTER = {None: "none", "add": "add", "mul": "mul", "max": "max", "min": "min"}


def is_constant(x: object) -> bool:
    """Return whether the values of `x` are known before the network runs."""
    return type(x) is not TracedArray


def ints(values: Any) -> Array:
    """Return a one-dimensional int64 constant. Sizes may be symbolic."""
    if not traces_symbolically():
        return np.array(values, np.int64).reshape(-1)
    return sized_array(list(values) if isinstance(values, Iterable) else [values], np.int64)


def arange(n: Any) -> Array:
    """Return the int64 array 0, 1, ..., n - 1, which is traced where the size `n` is symbolic."""
    if not is_symbolic(n):
        return np.arange(n, dtype=np.int64)
    graph = running_graph()
    numbers = [graph.constant(sized_array([i], np.int64, ())) for i in (0, n, 1)]
    return TracedArray(graph, graph.emit("Range", numbers, [((n,), I8)])[0])


def as_array(x: Any, dtype: DTypeLike) -> Array:
    """Return a Python number as an array of rank 0, which is traced if the number is symbolic."""
    if type(x) is PythonNumber:
        return x.as_dtype(dtype)
    return sized([x], dtype, ()) if is_symbolic(x) else np.asarray(x, dtype)


def sized(values: Sequence[Any], dtype: DTypeLike, shape: Sequence[int] | None = None) -> Array:
    """Return numbers, some of them symbolic, as a traced array: its values depend on the sizes of the inputs."""
    return hold(running_graph(), sized_array(values, dtype, shape))


def cast(x: Array, dtype: DTypeLike) -> Array:
    """Return `x` as `dtype`, with NumPy's conversion of values."""
    dtype = np.dtype(dtype)
    if is_symbolic(x) or issubclass(type(x), PythonNumber):
        return as_array(x, dtype)
    if x.dtype == dtype:
        return x
    if type(x) is not TracedArray:
        return x.astype(dtype)
    if dtype.kind not in "biuf" or dtype not in ONNX_TYPES:
        raise refusal(f"a cast to {dtype.name} cannot be recorded; the engines do not support it")
    if x.dtype.kind == "f" and dtype.kind in "iu":
        note_inexact_rounding(x)
    if x.dtype.kind == "f" and dtype.kind in "iu" and dtype not in NATIVE:
        via = I4 if dtype.itemsize < 4 else I8
        x = record("Cast", [x], x.shape, via, to=ONNX_TYPES[via])
    if x.dtype == dtype:
        return x
    return record("Cast", [x], x.shape, dtype, to=ONNX_TYPES[dtype])


ONNX_TYPES = {
    np.dtype(name): number
    for number, name in enumerate(["", "f4", "u1", "i1", "u2", "i2", "i4", "i8", "", "?", "f2", "f8", "u4", "u8"])
    if name
}
"""The TensorProto.DataType of each dtype that the engines support."""


def note_inexact_rounding(x: TracedArray) -> None:
    """Add a note if `x`, which is converted to an integer, comes from a float division.

    OpenVINO multiplies by the reciprocal instead of dividing, and a difference in the last bit may give the next
    integer.
    """
    producers = x._graph.producers
    waiting = [x._value]
    for _ in range(16):
        if not waiting:
            return
        producer = producers.get(waiting.pop())
        if producer is not None and producer.op == "Div" and not _power_of_two(producer.inputs[1]):
            x._graph.note(
                "rounds the result of a float division, which OpenVINO computes less exactly than NumPy, so that "
                "it may give the next integer; divide integers (-(-a // b)), or compute from shapes and parameters"
            )
            return
        if producer is not None and (producer in ELEMENTWISE or producer in MOVES):
            waiting.extend(v for v in producer.inputs if v is not None and v.const is None)


def _power_of_two(divisor: Value | None) -> bool:
    return divisor is not None and divisor.const is not None and bool((np.frexp(divisor.const)[0] == 0.5).all())


def to_native(x: Array) -> Array:
    """Cast to the dtype in which the engines compute."""
    return cast(x, compute_dtype(x.dtype))


def binary(op: str, a: Array, b: Array, dtype: DTypeLike | None = None) -> Array:
    """Record an elementwise operator of two arrays of one native dtype. `dtype` defaults to that of `a`."""
    return record(op, [a, b], broadcast(a.shape, b.shape), dtype or a.dtype)


def unary(op: str, x: Array, dtype: DTypeLike | None = None, **attrs: Any) -> Array:
    """Record an elementwise operator of one array. `dtype` defaults to that of `x`."""
    return record(op, [x], x.shape, dtype or x.dtype, **attrs)


# ---------------------------------------------------------------------- shapes


def reshape(x: Array, shape: Sequence[Any]) -> Array:
    """Return the elements in C order in another shape of the same size."""
    shape = tuple(shape)
    if type(x) is not TracedArray:
        return x.reshape(shape)
    if same_shape(shape, x.shape):
        return x
    producer = _producer_if(x, "Reshape")
    # only the last of several consecutive reshapes is needed
    if producer is not None and is_static(shape) and is_static(x.shape):
        x = _input(x, producer)
        if same_shape(shape, x.shape):
            return x
    if not shape and _producer_if(x, "MatMul"):  # OpenVINO 2026.4 crashes on MatMul + Reshape to a scalar
        return record("ReduceSum", [x, ints(range(x.ndim))], (), x.dtype, keepdims=0)
    return record("Reshape", [x, ints(_reshape_target(x.shape, shape))], shape, x.dtype)


def _producer_if(x: TracedArray, op: str) -> Op | None:
    """Return the operator that produces `x` if it is an `op`, else None."""
    producer = x._graph.producers.get(x._value)
    return producer if producer is not None and producer.op == op else None


def _input(x: TracedArray, producer: Op) -> TracedArray:
    """Return the first input of an operator as a traced array."""
    value = producer.inputs[0]
    if value is None:
        raise ValueError(f"{producer.op} without its first input")
    return TracedArray(x._graph, value)


def _reshape_target(old: Sequence[Any], new: Sequence[Any]) -> list[int]:
    """Return the second input of ONNX Reshape, in which dynamic sizes are -1 or 0.

    A single dynamic size becomes -1. If there are several, those at an unchanged index become 0 ("copy the size").
    """
    dims = [i for i, d in enumerate(new) if isinstance(d, Dim)]
    if len(dims) <= 1:
        return [-1 if isinstance(d, Dim) else d for d in new]
    target = [0 if isinstance(d, Dim) and i < len(old) and old[i] is d else d for i, d in enumerate(new)]
    if sum(isinstance(d, Dim) for d in target) > 1:
        raise refusal(
            f"reshaping {tuple(old)} to {tuple(new)}: two sizes are known only when the network runs; pad one "
            "with anylayer.ops.pad_to_maximum first"
        )
    return [-1 if isinstance(d, Dim) else d for d in target]


def transpose(x: Array, order: Sequence[int]) -> Array:
    """Permute the axes. If only axes of size 1 move, this is a reshape."""
    order = tuple(order)
    if type(x) is not TracedArray:
        return x.transpose(order)
    producer = _producer_if(x, "Transpose")
    if producer is not None:  # merge two transposes
        x, order = _input(x, producer), tuple(producer["perm"][i] for i in order)
    if order == tuple(range(len(order))):
        return x
    shape = tuple(x.shape[a] for a in order)
    moving = [a for a in order if not is_one(x.shape[a])]
    if moving == sorted(moving) and sum(isinstance(d, Dim) for d in shape) <= 1:
        return reshape(x, shape)
    return record("Transpose", [x], shape, x.dtype, perm=list(order))


def expand(x: Array, shape: Sequence[Any]) -> Array:
    """Broadcast to `shape`. A dynamic size must be a size of `x` already."""
    shape = tuple(shape)
    if is_constant(x):
        return np.broadcast_to(x, shape) if not symbolic_shape(shape) else _expanded_constant(x, shape)
    if same_shape(shape, x.shape):
        return x
    if broadcast(x.shape, shape) != shape:
        raise ValueError(f"could not broadcast input array from shape {x.shape} into shape {shape}")
    if not is_static(shape):
        target = [1 if isinstance(d, Dim) else d for d in shape]
        lead = len(shape) - len(x.shape)
        if any(isinstance(d, Dim) and (i < lead or x.shape[i - lead] is not d) for i, d in enumerate(shape)):
            raise refusal(
                f"expanding {x!r} to {shape} cannot be recorded, because the size is known only when the network "
                "runs; pad it with anylayer.ops.pad_to_maximum first"
            )
        return record("Expand", [x, ints(target)], shape, x.dtype)
    if sum(not is_one(d) for d in shape) == sum(not is_one(d) for d in x.shape):
        return reshape(x, shape)
    return record("Expand", [x, ints(shape)], shape, x.dtype)


def _expanded_constant(x: Array, shape: Sequence[Any]) -> Array:
    """Broadcast a constant to a shape with symbolic sizes."""
    graph = running_graph()
    inputs = [graph.constant(np.asarray(x)), graph.constant(ints(shape))]
    return TracedArray(graph, graph.emit("Expand", inputs, [(shape, x.dtype)])[0])


def _is_whole(bound: tuple[int, int, int, int], size: Any) -> bool:
    """Return whether (axis, start, n, step) selects all of an axis in order."""
    _, start, n, step = bound
    return is_zero(start) and (is_one(n) or same(step, 1)) and same(n, size)


def slices(x: Array, bounds: Sequence[tuple[int, int, int, int]]) -> Array:
    """Select range(start, start + step * n, step) of some axes; `bounds` lists (axis, start, n, step)."""
    bounds = [b for b in bounds if not _is_whole(b, x.shape[b[0]])]
    if not bounds:
        return x
    if type(x) is not TracedArray:
        key = [slice(None)] * x.ndim
        for axis, start, n, step in bounds:
            end = start + step * n
            key[axis] = slice(start, None if end < 0 else end, step) if n else slice(0, 0)
        return x[tuple(key)]
    if len(bounds) == 1 and is_zero(bounds[0][1]) and bounds[0][3] == 1 and not is_zero(bounds[0][2]):
        top = _smaller_top_k(x, bounds[0][0], bounds[0][2])
        if top is not None:
            return top
    shape = list(x.shape)
    starts, ends, steps = [], [], []
    for axis, start, n, step in bounds:
        end = start + step * n
        shape[axis] = n
        starts.append(0 if is_zero(n) else start)
        ends.append(0 if is_zero(n) else end if end >= 0 else -(2**31))
        steps.append(1 if is_zero(n) else step)
    axes = [b[0] for b in bounds]
    return record("Slice", [x, ints(starts), ints(ends), ints(axes), ints(steps)], shape, x.dtype)


def _smaller_top_k(x: TracedArray, axis: int, n: int) -> Array | None:
    """Return the first `n` results of a TopK along its axis as a TopK with k = n, or None.

    All but one are as slow as all, and a loop that takes or leaves out an element computes the same in each
    iteration.
    """
    producer = None if is_one(n) and depends_on_data(x.shape[axis]) else _producer_if(x, "TopK")
    size, first = plain((x.shape[axis], n))
    if producer is None or producer["axis"] != axis or size - first == 1:
        return None
    which = [v is x._value for v in producer.outputs].index(True)
    types = [((*v.shape[:axis], n, *v.shape[axis + 1 :]), v.dtype) for v in producer.outputs]
    return record_many("TopK", [_input(x, producer), ints(n)], types, **producer.attrs)[which]


def gather(x: Array, indices: Array, axis: int) -> Array:
    """Return np.take along one axis: the axes of `indices` replace it. Traced indices may be negative."""
    if is_constant(x) and is_constant(indices):
        return x.take(indices, axis)
    shape = (*x.shape[:axis], *indices.shape, *x.shape[axis + 1 :])
    indices = indices if indices.dtype in (I4, I8) else cast(indices, I8)
    return record("Gather", [x, indices], shape, x.dtype, axis=axis)


def concat(parts: Sequence[Array], axis: int) -> Array:
    """Concatenate arrays of one dtype along an existing axis."""
    if len(parts) == 1:
        return parts[0]
    if all(map(is_constant, parts)):
        return np.concatenate(parts, axis)
    first = parts[0]
    for p in parts[1:]:
        if p.ndim != first.ndim or any(a != b for i, (a, b) in enumerate(zip(p.shape, first.shape)) if i != axis):
            raise ValueError(
                "all the input array dimensions except for the concatenation axis must match exactly, "
                f"got shapes {first.shape} and {p.shape} along axis {axis}"
            )
    sizes = [p.shape[axis] for p in parts]
    if any(isinstance(s, Dim) for s in sizes):
        total: Any = Dim(f"{'+'.join(str(getattr(s, 'name', s)) for s in sizes)}", sum(stand_for(sizes)))
    else:
        total = sum(sizes)
        parts = [p for p in parts if not is_zero(p.shape[axis])] or [first]
        if len(parts) == 1:
            return parts[0]
    shape = (*first.shape[:axis], total, *first.shape[axis + 1 :])
    return record("Concat", list(parts), shape, first.dtype, axis=axis)


def pad(x: Array, before: Sequence[int], after: Sequence[int], value: Any = 0, mode: Any = "constant") -> Array:
    """Record Pad with mode "constant", "edge" or "reflect". `value` has the dtype of the array."""
    if is_constant(x):
        widths = list(zip(before, after))
        return np.pad(x, widths, constant_values=value) if mode == "constant" else np.pad(x, widths, mode)
    if all(map(is_zero, (*before, *after))):
        return x
    dtype = x.dtype
    native = dtype if dtype in NATIVE else compute_dtype(dtype)
    x = cast(x, native)
    shape = [d if is_zero(b) and is_zero(a) else d + b + a for d, b, a in zip(x.shape, before, after)]
    inputs = [x, ints([*before, *after])]
    if mode == "constant" and np.any(np.asarray(value) != 0):
        inputs.append(np.asarray(value, dtype).astype(native))
    return cast(record("Pad", inputs, shape, native, mode=None if mode == "constant" else mode), dtype)


def select(mask: Array, a: Array, b: Array) -> Array:
    """Record Where for a mask and two arrays of one dtype."""
    if is_constant(mask) and is_constant(a) and is_constant(b):
        return np.asarray(np.where(mask, a, b))
    if is_constant(mask) and mask.size and (mask.all() or not mask.any()):
        chosen = a if mask.all() else b
        return expand(chosen, broadcast(mask.shape, a.shape, b.shape))
    dtype = a.dtype
    shape = broadcast(mask.shape, a.shape, b.shape)
    native = dtype if dtype in NATIVE else compute_dtype(dtype)
    return cast(record("Where", [mask, cast(a, native), cast(b, native)], shape, native), dtype)


def scatter(x: Array, indices: Array, updates: Array, axis: int, reduction: str | None = None) -> Array:
    """Record ScatterElements along an axis.

    If indices repeat, the result is undefined unless `reduction` is given.
    """
    dtype = x.dtype
    native = dtype if dtype in NATIVE else compute_dtype(dtype)
    how = _SCATTER[reduction]
    result = record(
        "ScatterElements",
        [cast(x, native), indices, cast(updates, native)],
        x.shape,
        native,
        axis=axis,
        reduction=None if how == "none" else how,
    )
    return cast(result, dtype)


def gather_elements(x: Array, indices: Array, axis: int) -> Array:
    """Record GatherElements. The result has the shape of the indices; negative indices count from the end."""
    return record("GatherElements", [x, indices], indices.shape, x.dtype, axis=axis)


def split(x: Array, sizes: Sequence[int], axis: int) -> list[Array]:
    """Return parts of the given sizes along an axis."""
    if is_constant(x):
        ends = np.cumsum(sizes)
        return [slices(x, [(axis, int(e - n), n, 1)]) for e, n in zip(ends, sizes)]
    if 0 in sizes or len(sizes) == 1 or held(x) is not None:
        starts = [sum(sizes[:i]) for i in range(len(sizes))]
        return [x if same(n, x.shape[axis]) else slices(x, [(axis, s, n, 1)]) for s, n in zip(starts, sizes)]
    types = [((*x.shape[:axis], n, *x.shape[axis + 1 :]), x.dtype) for n in sizes]
    return list(record_many("Split", [x, ints(sizes)], types, axis=axis))


def reduce(op: str, x: Array, axes: Sequence[int], keepdims: bool) -> Array:
    """Record a reduction such as ReduceSum over the axes. `x` has a native dtype."""
    if not axes:
        return x
    shape = reduced_shape(x.shape, axes, keepdims)
    return record(op, [x, ints(axes)], shape, x.dtype, keepdims=int(keepdims))
