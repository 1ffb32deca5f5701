"""Operators that reshape, rearrange, slice and repeat, and those that make arrays."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from anylayer.layer import Array, attribute, field, need
from anylayer.layer.arguments import axes_of, axis_of, need_sizes, reshape, same
from anylayer.layers._arrays import concatenate, count_in_range, split, squeeze, transpose, unsqueeze
from anylayer.layers._table import of_tensorflow, row
from anylayer.layers.mxnet._base import ANY, DTYPE, FLAG, INT, INTS, along, any_dtypes, operators

Ints = int | Sequence[int] | None
Limits = Sequence[int | None] | None


def _reshape(
    x: Array, shape: Sequence[int], reverse: bool, target_shape: Sequence[int], keep_highest: bool
) -> Array:
    if not shape and target_shape:  # before version 0.9
        sizes = [-1 if d == 0 else d for d in target_shape]
        return reshape(x, [x.shape[0], *sizes[1:]] if keep_highest else sizes, "target_shape")
    need(shape, "parameter 'shape' is missing")
    need(min(shape) > -5, f"shape has the unknown code {min(shape)}")
    return reshape_by_codes(x, [*shape], reverse)


def reshape_by_codes(x: Array, codes: list[int], reverse: bool) -> Array:
    """Return an array in the shape that codes state, read from the first or the last on: see _target."""
    return reshape(x, _target(x.shape, codes, -1 if reverse else 1), "shape")


def _target(sizes: Sequence[int], codes: list[int], order: int) -> list[int]:
    """Return the sizes that codes state, read in an order: 0 copies a size, -1 is the rest, -2 copies all further
    sizes, -3 merges two sizes, -4 splits one into the two that follow, and -5 leaves out a size of 1."""
    rest, ahead = [*sizes][::order], codes[::order]
    target: list[int] = []

    def next_of(values: list[int]) -> int:
        need(values, f"shape {codes} does not fit an array of shape {tuple(sizes)}")
        return values.pop(0)

    while ahead:
        code = ahead.pop(0)
        need(code >= -5, f"shape has the unknown code {code}")
        if code == -2:
            target += rest
            rest = []
        elif code == -4:
            whole, parts = next_of(rest), [next_of(ahead), next_of(ahead)]
            divisor = max(parts) if -1 in parts else parts[0] * parts[1]
            need(divisor > 0 and whole % divisor == 0, f"shape {codes} splits {whole} into {parts}")
            target += [whole // divisor if part == -1 else part for part in parts]
        elif code == -5:
            need(same(next_of(rest), 1), f"shape {codes} leaves out a size of {tuple(sizes)} that is not 1")
        elif code in (0, -3):
            target.append(next_of(rest) * (1 if code == 0 else next_of(rest)))
        else:
            target.append(code)
            rest = rest[1:]
    return target[::order]


def _as_list(value: Ints) -> list[int]:
    """Return an attribute that is a number, a list or None as a list."""
    return [] if value is None else [value] if isinstance(value, int) else [*value]


def _key(x: Array, begin: Limits, end: Limits, step: Limits) -> tuple[slice, ...]:
    first, last, by = ([*limits] if limits else [] for limits in (begin, end, step))
    by += [None] * (len(first) - len(by))
    fits = len(first) == len(last) == len(by) <= len(x.shape) and 0 not in by
    need(fits, f"begin {first}, end {last} and step {by} do not fit a shape {tuple(x.shape)}")
    return tuple(map(slice, first, last, by))


def _slice_axis(x: Array, axis: int, begin: int, end: int | None) -> Array:
    return x[(slice(None),) * axis_of(axis, len(x.shape)) + (slice(begin, end),)]


def _slice_like(x: Array, like: Array, axes: Sequence[int]) -> Array:
    over = axes_of(axes, len(x.shape)) or range(len(x.shape))
    for axis in over:
        fits = axis < len(like.shape) and like.shape[axis] <= x.shape[axis]
        need(fits, f"axis {axis} of {tuple(x.shape)} is shorter than that of {tuple(like.shape)}")
    return x[tuple(slice(0, like.shape[i]) if i in over else slice(None) for i in range(len(x.shape)))]


def _parts(x: Array, *, num_outputs: int, axis: int, squeeze_axis: bool, outputs: int) -> list[Array]:
    axis = axis_of(axis, len(x.shape))
    parts = split(x, axis, num_outputs, "num_outputs")[:outputs]
    return [squeeze(part, [axis]) for part in parts] if squeeze_axis else parts


def _broadcast(x: Array, sizes: Sequence[int]) -> Array:
    need_sizes(sizes)
    fits = len(sizes) == len(x.shape) and all(d in (1, n) for d, n in zip(x.shape, sizes))
    need(fits, f"shape {tuple(x.shape)} does not broadcast to {tuple(sizes)}")
    return np.broadcast_to(x, tuple(sizes))


def _broadcast_axes(x: Array, axis: Ints, size: Ints) -> Array:
    new = dict(zip(axes_of(_as_list(axis), len(x.shape)), _as_list(size), strict=True))
    return _broadcast(x, [new.get(i, d) for i, d in enumerate(x.shape)])


def _broadcast_like(x: Array, like: Array, lhs_axes: Sequence[int], rhs_axes: Sequence[int]) -> Array:
    if not lhs_axes and not rhs_axes:
        return _broadcast(x, like.shape)
    axes = axes_of(rhs_axes, len(like.shape), "rhs_axes")
    return _broadcast_axes(x, [*lhs_axes], [like.shape[i] for i in axes])


def _tile(x: Array, reps: Sequence[int]) -> Array:
    more = len(reps) - len(x.shape)
    need_sizes([a * b for a, b in zip((*(1,) * more, *x.shape), (*(1,) * -more, *reps))])
    return np.tile(x, tuple(reps))


def _repeat(x: Array, repeats: int, axis: int | None) -> Array:
    flat, over = along(x, axis)
    need(repeats >= 1, f"repeats must be at least 1, got {repeats}")
    need_sizes([repeats * d if i == over else d for i, d in enumerate(flat.shape)])
    return np.repeat(flat, repeats, axis=over)


def _constant(shape: Sequence[int], value: float, dtype: str) -> Array:
    need_sizes(shape)
    return np.full(tuple(shape), value, dtype)


def _arange(*, start: float, stop: float | None, step: float, repeat: int, dtype: str, infer_range: bool) -> Array:
    need(not infer_range, "infer_range=True, a length that a consumer decides, is not supported; give stop")
    first, end = (0.0, start) if stop is None else (start, stop)
    count = count_in_range(first, end, step, "step")
    need_sizes((count, repeat))
    numbers = np.repeat(np.arange(count), repeat).astype(dtype)
    return numbers * np.dtype(dtype).type(step) + np.dtype(dtype).type(first)


def _diag(x: Array, k: int, axis1: int, axis2: int) -> Array:
    if len(x.shape) > 1:
        return np.diagonal(x, k, axis1, axis2)
    need_sizes([x.shape[0] + abs(k)] * 2)
    return np.diag(x, k)


def _index_array(x: Array, axes: Sequence[int]) -> Array:
    every = np.indices(x.shape)
    chosen = axes_of(axes, len(x.shape)) or range(len(x.shape))
    return np.stack([every[i] for i in chosen], axis=-1).astype(np.int64)


def _assign(x: Array, values: Array | float, begin: Limits, end: Limits, step: Limits) -> Array:
    y = np.copy(x)
    y[_key(x, begin, end, step)] = values
    return y


def _arange_like(x: Array, start: float, step: float, repeat: int, axis: int | None) -> Array:
    shape = tuple(x.shape) if axis is None else (x.shape[axis_of(axis, len(x.shape))],)
    numbers = np.arange(math.prod(shape)) // repeat
    return (start + numbers * step).astype(x.dtype).reshape(shape)


_UNARY = "tensor/elemwise_unary_op_basic.cc"
_MATRIX, _VALUE, _INIT = "tensor/matrix_op.cc", "tensor/broadcast_reduce_op_value.cc", "tensor/init_op.cc"
_ZERO, _ONE = attribute("int32", 0), attribute("int32", 1)
_LIMITS = {"begin": attribute("any"), "end": attribute("any"), "step": ANY}
_START, _STEP = attribute("double", 0.0), attribute("double", 1.0)
operators(
    {
        "Flatten flatten": row("Reshape to (N, values of a sample).",
            lambda x: x.reshape(x.shape[0], math.prod(x.shape[1:])), _MATRIX),
        "Reshape reshape": row("Reshape an array, in C order.", _reshape, _MATRIX,
            "In shape, 0 copies a size, -1 is the rest, -2 copies all further sizes, -3 merges two sizes, and -4 "
            "splits one into the two that follow. With reverse, this is read from the last axis on.",
            shape=INTS, reverse=FLAG, target_shape=INTS, keep_highest=FLAG),
        "reshape_like": row("Reshape to the shape of a second array.",
            lambda x, like: reshape(x, like.shape, "the shape of the second input"), _UNARY),
        "transpose _np_transpose _npi_transpose": row("Permute the axes, or reverse them.",
            lambda x, axes: transpose(x, axes or range(len(x.shape))[::-1], "axes"), _MATRIX, axes=INTS),
        "SwapAxis swapaxes": row("Swap two axes.",
            lambda x, dim1, dim2: x.swapaxes(*(axis_of(d, len(x.shape)) for d in (dim1, dim2))), "swapaxis.cc",
            dim1=_ZERO, dim2=_ZERO),
        "expand_dims": row("Add an axis of size 1.", lambda x, axis: unsqueeze(x, [axis], "axis"), _MATRIX,
            axis=INT),
        "squeeze _np_squeeze _npi_squeeze": row("Remove axes of size 1, or all of them.",
            lambda x, axis: squeeze(x, axes_of(_as_list(axis), len(x.shape))), _MATRIX, axis=ANY),
        "slice crop": row("Compute x[begin:end:step, ...] in NumPy's notation.",
            lambda x, **limits: x[_key(x, **limits)], _MATRIX, **_LIMITS),
        "_slice_assign _crop_assign": row("Replace x[begin:end:step, ...] by a second array.", _assign, _MATRIX,
            **_LIMITS),
        "_slice_assign_scalar _crop_assign_scalar": row("Replace x[begin:end:step, ...] by a number.",
            lambda x, scalar, **limits: _assign(x, scalar, **limits), _MATRIX, scalar=attribute("double", 0.0),
            **_LIMITS),
        "diag": row("Return diagonals, or a matrix with a given diagonal.", _diag, "tensor/diag_op.cc", k=_ZERO,
            axis1=_ZERO, axis2=_ONE),
        "_contrib_index_array": row("Return the index of each element along all axes, or along some.",
            _index_array, "contrib/index_array.cc", axes=INTS),
        "slice_axis": row("Compute x[begin:end] along an axis.", _slice_axis, _MATRIX, axis=INT, begin=INT,
            end=ANY),
        "slice_like": row("Cut axes to the sizes of a second array.", _slice_like, _MATRIX, axes=INTS),
        "SliceChannel split": row("Split an array into num_outputs equal parts along an axis.", _parts,
            "slice_channel.cc", num_outputs=INT, axis=_ONE, squeeze_axis=FLAG),
        "Concat concat _rnn_param_concat": row("Concatenate arrays along axis dim.",
            lambda *xs, dim: concatenate(xs, dim, "dim"), "nn/concat.cc", dim=_ONE),
        "stack": row("Stack arrays of one shape along a new axis.", lambda *xs, axis: np.stack(xs, axis=axis),
            _MATRIX, axis=_ZERO),
        "tile": row("Repeat an array along each axis.", _tile, _MATRIX, reps=INTS),
        "repeat": row("Repeat each element along an axis, or of the flat array.", _repeat, _MATRIX, repeats=INT,
            axis=ANY),
        "reverse flip": row("Reverse the order along axes.",
            lambda x, axis: np.flip(x, tuple(axes_of(_as_list(axis), len(x.shape)))), _MATRIX,
            axis=attribute("any")),
        "broadcast_to": row("Broadcast to a shape, in which 0 copies a size.",
            lambda x, shape: _broadcast(x, [n or d for d, n in zip(x.shape, shape, strict=True)]), _VALUE,
            shape=INTS),
        "broadcast_axis broadcast_axes": row("Broadcast axes of size 1 to sizes.", _broadcast_axes, _VALUE,
            axis=ANY, size=ANY),
        "broadcast_like": row("Broadcast to the shape of a second array, or axes lhs_axes to its axes rhs_axes.",
            _broadcast_like, _VALUE, lhs_axes=INTS, rhs_axes=INTS),
        "_zeros _npi_zeros": row("Return zeros.", lambda *, shape, dtype: _constant(shape, 0, dtype), _INIT,
            shape=INTS, dtype=DTYPE),
        "_ones _npi_ones": row("Return ones.", lambda *, shape, dtype: _constant(shape, 1, dtype), _INIT,
            shape=INTS, dtype=DTYPE),
        "_full": row("Return an array with one value.",
            lambda *, shape, value, dtype: _constant(shape, value, dtype), _INIT, shape=INTS,
            value=attribute("double"), dtype=DTYPE),
        "_arange _npi_arange": row("Return start, start + step, ... before stop, each `repeat` times.", _arange,
            _INIT,
            "Without stop, start is the end, and the numbers begin with 0.",
            start=_START, stop=attribute("double", None), infer_range=FLAG, step=_STEP,
            repeat=field(0, "int32", 1, least=1), dtype=DTYPE),
        "shape_array": row("Return the shape as int64.", lambda x: of_tensorflow("Shape")(x, out_type="int64"),
            _UNARY),
        "size_array": row("Return the number of elements as int64, an array of shape (1,).",
            lambda x: of_tensorflow("Size")(x, out_type="int64").reshape(1), _UNARY),
        "_contrib_arange_like": row("Return start, start + step, ... in the shape of x, or along an axis of it.",
            _arange_like, _INIT, start=_START, step=_STEP, repeat=field(0, "int32", 1, least=1), axis=ANY),
    },
    check=any_dtypes,
)  # fmt: skip
