"""The operators of MXNet's NumPy interface, which Gluon writes under npx.set_np().

Their functions are NumPy's. Arrays may be scalars, comparisons give bool, and inputs of two dtypes get a common
one.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain

import numpy as np

from anylayer.layer import Array, Enum, attribute, need
from anylayer.layer.arguments import axes_of, need_sizes, reshape
from anylayer.layers._arrays import concatenate, total
from anylayer.layers._table import OperatorType, computes, row, row_of_tensorflow
from anylayer.layers.mxnet._base import ANY, DTYPE, DTYPES, FLAG, INT, INTS, along, any_dtypes, operators
from anylayer.layers.mxnet.elementwise import OF_TWO
from anylayer.layers.mxnet.reductions import Axes, over
from anylayer.layers.mxnet.resizing import pad
from anylayer.layers.mxnet.shapes import reshape_by_codes
from anylayer.network import Function

_ZERO, _ONE = attribute("int32", 0), attribute("int32", 1)
_RESULT = attribute(Enum(*DTYPES), None, doc="the dtype of the result")


def _real(x: Array) -> Array:
    return x if x.dtype.kind == "f" else x.astype(np.float32)


def _common(a: Array, b: Array) -> tuple[Array, Array]:
    """Return two arrays in one dtype: a real one rather than integers, and integers rather than bool."""
    need({a.dtype.kind, b.dtype.kind} != {"i", "u"}, f"inputs of {a.dtype} and {b.dtype} are not supported")
    _, dtype = sorted((a.dtype, b.dtype), key=lambda d: ("biuf".index(d.kind), d.itemsize))
    return a.astype(dtype), b.astype(dtype)


_OF_REALS: dict[str, tuple[str, Function]] = {
    "true_divide": ("a / b", np.divide),
    "arctan2": ("the angle of the point (b, a)", np.arctan2),
    "copysign": ("a with the sign of b", np.copysign),
    "hypot": OF_TWO["hypot"],
}
_OF_TWO: dict[str, tuple[str, Function]] = {
    "add": OF_TWO["plus"], "subtract": OF_TWO["minus"], "multiply": OF_TWO["mul"],
    "mod": OF_TWO["mod"], "power": OF_TWO["power"],
    **{name.replace("lesser", "less"): (what.replace("1 where", "whether").removesuffix(", else 0"), function)
       for name, (what, function) in OF_TWO.items() if what.startswith("1 where a")},
    "bitwise_and": ("the bits that a and b have", np.bitwise_and),
    "bitwise_or": ("the bits that a or b have", np.bitwise_or),
    "bitwise_xor": ("the bits that one of a and b has", np.bitwise_xor),
}  # fmt: skip
_ALL = {**_OF_TWO, **_OF_REALS}
_REVERSED = ("subtract", "mod", "power", "true_divide", "arctan2", "copysign")


def _of_two(name: str) -> OperatorType:
    what, function = _ALL[name]

    def compute(a: Array, b: Array) -> Array:
        return function(*_common(*(map(_real, (a, b)) if name in _OF_REALS else (a, b))))

    return computes(what, compute)


def _of_number(name: str, is_reversed: bool = False) -> OperatorType:
    """Return the row of a function of an array and a number."""
    what, function = _ALL[name]

    def compute(x: Array, scalar: float, is_int: bool) -> Array:
        if name in _OF_REALS:
            x = _real(x)
        elif x.dtype.kind != "f" and not is_int:
            x = x.astype(np.float64)
        elif x.dtype.kind == "b":
            x = x.astype(np.int64)
        number = np.asarray(scalar).astype(x.dtype)
        return function(number, x) if is_reversed else function(x, number)

    return row(f"Compute {what}, where {'a' if is_reversed else 'b'} is the number scalar.", compute,
        scalar=attribute("double"), is_int=attribute("bool", True))  # fmt: skip


def _of_floats(name: str) -> OperatorType:
    """Return the row of a function of one array of real numbers."""
    function: Function = getattr(np, name)

    def compute(x: Array) -> Array:
        need(x.dtype.kind == "f", f"an array of {x.dtype} is not supported")
        return function(x)

    return computes(f"numpy.{name}", compute)


_OF_FLOATS = (
    "rint ceil floor trunc fix exp expm1 log log2 log10 log1p sqrt cbrt reciprocal sin cos tan arcsin arccos "
    "arctan sinh cosh tanh arcsinh arccosh arctanh degrees radians isnan isinf isfinite isposinf isneginf"
)
operators(
    {
        **{f"_npi_{name}": _of_two(name) for name in _ALL},
        **{f"_npi_{name}_scalar": _of_number(name) for name in _ALL},
        **{f"_npi_r{name}_scalar": _of_number(name, True) for name in _REVERSED},
        **{f"_npi_{name}": _of_floats(name) for name in _OF_FLOATS.split()},
        **{f"_npi_{name}": computes(f"numpy.{name}", getattr(np, name))
           for name in ("absolute", "sign", "negative", "square", "logical_not", "bitwise_not")},
        "_npx_relu": row_of_tensorflow("Relu"),
        "_npx_sigmoid": row_of_tensorflow("Sigmoid"),
        "_np_copy _npi_copy": row("Return the input.", lambda x: x),
        "_npi_around": row("Round to a number of decimals.",
            lambda x, decimals: np.round(x, decimals), decimals=_ZERO),
        "_npi_nan_to_num": row("Replace NaN and infinite values.",
            lambda x, nan, posinf, neginf: np.nan_to_num(x, nan=nan, posinf=posinf, neginf=neginf),
            body={"neutral": {"copy": True}},
            nan=attribute("double", 0.0), posinf=attribute("double", None), neginf=attribute("double", None)),
    },
    check=any_dtypes,
)  # fmt: skip


def _sum(x: Array, axis: Axes, keepdims: bool, dtype: str | None) -> Array:
    x = x.astype(dtype or (np.int64 if x.dtype.kind == "b" else x.dtype))
    return total(x, axis=over(x, axis), keepdims=keepdims)


def _mean(x: Array, axis: Axes, keepdims: bool, dtype: str | None) -> Array:
    x = x.astype(dtype) if dtype else _real(x)
    return np.mean(x, axis=over(x, axis), keepdims=keepdims)


def _deviation(function: Function) -> Function:
    return lambda x, axis, ddof, keepdims: function(_real(x), axis=over(x, axis), ddof=ddof, keepdims=keepdims)


def _reduce(function: Function) -> Function:
    return lambda x, axis, keepdims: function(x, axis=over(x, axis), keepdims=keepdims)


def _index(function: Function) -> Function:
    def compute(x: Array, axis: int | None, keepdims: bool) -> Array:
        flat, at = along(x, axis)
        y: Array = function(flat, axis=at, keepdims=keepdims).astype(np.int64)
        return y.reshape((1,) * len(x.shape)) if axis is None and keepdims else y

    return compute


def _cumulative_sum(x: Array, axis: int | None, dtype: str | None) -> Array:
    flat, at = along(x, axis)
    return np.cumsum(flat, axis=at, dtype=dtype or x.dtype)


def _average(x: Array, weights: Array | None = None, *, axis: Axes, weighted: bool) -> Array:
    need(weighted == (weights is not None), f"weighted={weighted} does not fit the number of inputs")
    axes = over(x, axis)
    need(weights is None or len(axes) == 1, f"weights need one axis, got {axes}")
    return np.average(x, axis=axes if weights is None else axes[0], weights=weights)


_OVER = {"axis": ANY, "keepdims": FLAG}
_INITIAL = {"neutral": {"initial": None}}
_NO_DTYPE = {"neutral": {"dtype": None}}
operators(
    {
        "_np_sum _npi_sum": row("Compute the sum over axes.", _sum, body=_INITIAL, dtype=_RESULT, **_OVER),
        "_npi_mean": row("Compute the mean over axes.", _mean, body=_INITIAL, dtype=_RESULT, **_OVER),
        "_np_prod _npi_prod": row("Compute the product over axes.", _reduce(np.prod),
            body={"neutral": {"initial": None, "dtype": None}}, **_OVER),
        "_np_max _npi_max": row("Compute the maximum over axes.", _reduce(np.max), body=_INITIAL, **_OVER),
        "_np_min _npi_min": row("Compute the minimum over axes.", _reduce(np.min), body=_INITIAL, **_OVER),
        "_np_all _npi_all": row("Compute whether all elements along axes are true.", _reduce(np.all), **_OVER),
        "_np_any _npi_any": row("Compute whether any element along axes is true.", _reduce(np.any), **_OVER),
        "_npi_std": row("Compute the standard deviation over axes.", _deviation(np.std), body=_NO_DTYPE,
            ddof=_ZERO, **_OVER),
        "_npi_var": row("Compute the variance over axes.", _deviation(np.var), body=_NO_DTYPE, ddof=_ZERO,
            **_OVER),
        "_npi_argmax": row("Return the index of the maximum along an axis, or in the flat array.",
            _index(np.argmax), **_OVER),
        "_npi_argmin": row("Return the index of the minimum along an axis, or in the flat array.",
            _index(np.argmin), **_OVER),
        "_np_cumsum _npi_cumsum": row("Compute the cumulative sum along an axis, or of the flat array.",
            _cumulative_sum, axis=ANY, dtype=_RESULT),
        "_npi_average": row("Compute the weighted mean over axes.", _average,
            body={"neutral": {"returned": False}}, axis=ANY, weighted=attribute("bool", True)),
        "_np_trace _npi_trace": row("Compute the sum of the diagonal.",
            lambda x, offset, axis1, axis2: np.trace(x, offset, axis1, axis2), offset=_ZERO, axis1=_ZERO,
            axis2=_ONE),
        "_npi_matmul": computes("the matrix product of numpy.matmul", np.matmul),
        "_np_dot _npi_dot": computes("the product of numpy.dot", lambda a, b: np.dot(a, b)),
        "_npi_tensordot": row("Multiply and sum over axes of both.",
            lambda a, b, a_axes_summed, b_axes_summed: np.tensordot(a, b, (a_axes_summed, b_axes_summed)),
            a_axes_summed=INTS, b_axes_summed=INTS),
        "_npi_tensordot_int_axes": row("Multiply and sum over the last axes of a and the first of b.",
            lambda a, b, axes: np.tensordot(a, b, axes), axes=INT),
        "_npi_einsum": row("Compute numpy.einsum(subscripts, *inputs).",
            lambda *xs, subscripts: np.einsum(subscripts.replace(" ", ""), *xs),
            body={"training": frozenset(["optimize"])}, subscripts=attribute("string")),
    },
    check=any_dtypes,
)  # fmt: skip


def _split(
    x: Array, *, indices: Sequence[int], sections: int, axis: int, squeeze_axis: bool, outputs: int
) -> list[Array]:
    flat, at = along(x, axis)
    n = flat.shape[at]
    need(sections >= 0 and (not sections or n % sections == 0), f"sections={sections} does not divide {n}")
    parts = np.split(flat, sections or [*indices[1:]], axis=at)[:outputs]
    return [part.reshape(part.shape[:at] + part.shape[at + 1 :]) for part in parts] if squeeze_axis else parts


def _concatenate(*xs: Array, axis: int | None) -> Array:
    return np.concatenate([x.reshape(-1) for x in xs]) if axis is None else concatenate(xs, axis)


def _linspace(*, start: float, stop: float, num: int, endpoint: bool, dtype: str) -> Array:
    need_sizes((num,))
    return np.linspace(start, stop, num, endpoint, dtype=dtype)


def _eye(*, N: int, M: int | None, k: int, dtype: str) -> Array:
    shape = (N, M or N)
    need_sizes(shape)
    return np.eye(*shape, k, dtype)


def _full_like(x: Array, fill_value: float, dtype: str | None) -> Array:
    return np.full(tuple(x.shape), fill_value, dtype or x.dtype)


def _indices(*, dimensions: Sequence[int], dtype: str) -> Array:
    need_sizes((len(dimensions), *dimensions))
    return np.indices(tuple(dimensions), dtype)


def _broadcast(x: Array, shape: Sequence[int]) -> Array:
    need_sizes(shape)
    return np.broadcast_to(x, tuple(shape))


_CODES = {-2: 0, -3: -5, -4: -2, -5: -3, -6: -4}
"""The codes of npx.reshape, as those of reshape: copy a size, leave out a 1, copy all, merge two, split."""
operators(
    {
        "_np_reshape": row("Reshape an array, in C order.",
            lambda x, newshape: reshape(x, newshape, "newshape"), body={"neutral": {"order": "C"}}, newshape=INTS),
        "_npx_reshape": row("Reshape an array, in C order.",
            lambda x, newshape, reverse: reshape_by_codes(x, [_CODES.get(n, n) for n in newshape], reverse),
            "_npx_reshape",
            "In newshape, -1 is the rest, -2 copies a size, -3 leaves out a size of 1, -4 copies all further "
            "sizes, -5 merges two sizes, and -6 splits one into the two that follow. With reverse, this is read "
            "from the last axis on.", {"neutral": {"order": "C"}}, newshape=INTS, reverse=FLAG),
        "_np_moveaxis _npi_moveaxis": row("Move axes to other places.",
            lambda x, *, source, destination: np.moveaxis(x, source, destination),
            body={"source": INTS, "destination": INTS}),
        "_np_roll _npi_roll": row("Move elements along axes, or in the flat array; the last become the first.",
            lambda x, shift, axis: np.roll(x, shift[0]) if axis is None else np.roll(x, tuple(shift), tuple(axis)),
            shift=INTS, axis=ANY),
        "_npi_broadcast_to": row("Broadcast to a shape.", _broadcast, shape=INTS),
        "_npi_concatenate": row("Concatenate arrays along an axis, or as flat arrays.", _concatenate, axis=ANY),
        "_npi_stack": row("Stack arrays along a new axis.", lambda *xs, axis: np.stack(xs, axis=axis), axis=_ZERO),
        "_npi_hstack": computes("numpy.hstack of all inputs", lambda *xs: np.hstack(xs)),
        "_npi_vstack": computes("numpy.vstack of all inputs", lambda *xs: np.vstack(xs)),
        "_npi_dstack": computes("numpy.dstack of all inputs", lambda *xs: np.dstack(xs)),
        "_npi_column_stack": computes("numpy.column_stack of all inputs", lambda *xs: np.column_stack(xs)),
        "_split_v2 _npi_hsplit _npi_dsplit": row("Split along an axis at indices, or into equal sections.", _split,
            "tensor/matrix_op.cc", "The first index is 0.", indices=INTS, sections=_ZERO, axis=_ONE,
            squeeze_axis=FLAG),
        "_npi_flip": row("Reverse the order along axes.",
            lambda x, axis: np.flip(x, tuple(axes_of(axis, len(x.shape)))), axis=INTS),
        "_npi_rot90": row("Rotate by 90 degrees in a plane.", lambda x, k, axes: np.rot90(x, k, tuple(axes)),
            k=_ONE, axes=attribute("int32", (0, 1), repeated=True)),
        "_npi_pad": row("Pad axes with a constant, the edge, or a reflection.",
            lambda x, pad_width, mode, constant_value: pad(x, mode, [*chain(*pad_width)], constant_value),
            body={"neutral": {"reflect_type": "even"}}, pad_width=attribute("any"),
            mode=attribute(Enum("constant", "edge", "reflect"), "constant"),
            constant_value=attribute("double", 0.0)),
        "_npi_tril": row("Set the elements above a diagonal to 0.", np.tril, k=_ZERO),
        "_npi_diff": row("Subtract neighbors along an axis, n times.",
            lambda x, n, axis: np.diff(x, n, axis), n=_ONE,
            axis=attribute("int32", -1)),
        "_np_diagonal _npi_diagonal": row("Return diagonals.", np.diagonal, offset=_ZERO, axis1=_ZERO, axis2=_ONE),
        "_linspace": row("Return num numbers from start to stop.", _linspace, "tensor/init_op.cc",
            start=attribute("double"), stop=attribute("double"), num=INT, endpoint=attribute("bool", True),
            dtype=DTYPE),
        "_eye _npi_eye": row("Return ones on a diagonal, and zeros elsewhere.", _eye, N=INT, M=ANY, k=_ZERO,
            dtype=DTYPE),
        "_npi_identity": row("Return the identity matrix.",
            lambda *, shape, dtype: _eye(N=shape[0], M=None, k=0, dtype=dtype), shape=INTS, dtype=DTYPE),
        "_npi_full_like": row("Return an array of the input's shape with one value.", _full_like,
            fill_value=attribute("double"), dtype=_RESULT),
        "_npi_indices": row("Return the index of each element along each axis.", _indices, dimensions=INTS,
            dtype=DTYPE),
        "_npi_where": row("Select a where the condition is not 0, else b.",
            lambda condition, a, b: np.where(condition != 0, *_common(a, b))),
        "_npi_where_lscalar": row("Select a number where the condition is not 0, else y.",
            lambda condition, y, scalar: np.where(condition != 0, y.dtype.type(scalar), y),
            scalar=attribute("double", 0.0)),
        "_npi_where_rscalar": row("Select x where the condition is not 0, else a number.",
            lambda condition, x, scalar: np.where(condition != 0, x, x.dtype.type(scalar)),
            scalar=attribute("double", 0.0)),
        "_npi_where_scalar2": row("Select x where the condition is not 0, else y, in float32.",
            lambda condition, x, y: np.where(condition != 0, np.float32(x), np.float32(y)),
            x=attribute("double", 0.0), y=attribute("double", 0.0)),
    },
    check=any_dtypes,
)  # fmt: skip
