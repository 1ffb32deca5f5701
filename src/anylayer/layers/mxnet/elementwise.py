"""Functions of elements: arithmetic, comparisons, functions of one array."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from anylayer.layer import Array, Layer, attribute, need
from anylayer.layers._arrays import round_half_away
from anylayer.layers._table import OperatorType, computes, need_one_dtype, of_tensorflow, row, row_of_tensorflow
from anylayer.layers.mxnet._base import ANY, SOURCE, operators, training
from anylayer.network import Function


def _need_one_type(self: Layer, *xs: Array) -> None:
    need_one_dtype(self, *xs)
    shapes = [tuple(x.shape) for x in xs]
    need(all(shape == shapes[0] for shape in shapes), f"all inputs must have one shape, got {shapes}")


def _as_inputs(function: Function) -> Function:
    """Return a function of two arrays with results in their dtype, such as 1.0 for true."""
    return lambda a, b: function(a, b).astype(a.dtype)


def _remainder(a: Array, b: Array) -> Array:
    zero = b == 0
    return np.where(zero, np.zeros((), a.dtype), np.mod(a, np.where(zero, np.ones((), b.dtype), b)))


OF_TWO: dict[str, tuple[str, Function]] = {
    "plus": ("a + b", np.add),
    "minus": ("a - b", np.subtract),
    "mul": ("a * b", np.multiply),
    "div": ("a / b", lambda a, b: of_tensorflow("Div")(a, b)),
    "mod": ("the remainder of a / b, with the sign of b, or 0 where b is 0", _remainder),
    "power": ("a to the power of b", np.power),
    "maximum": ("the larger of a and b", np.maximum),
    "minimum": ("the smaller of a and b", np.minimum),
    "hypot": ("sqrt(a * a + b * b)", lambda a, b: np.sqrt(a * a + b * b)),
    "equal": ("1 where a == b, else 0", np.equal),
    "not_equal": ("1 where a != b, else 0", np.not_equal),
    "greater": ("1 where a > b, else 0", np.greater),
    "greater_equal": ("1 where a >= b, else 0", np.greater_equal),
    "lesser": ("1 where a < b, else 0", np.less),
    "lesser_equal": ("1 where a <= b, else 0", np.less_equal),
    "logical_and": ("1 where neither a nor b is 0, else 0", np.logical_and),
    "logical_or": ("0 where a and b are 0, else 1", np.logical_or),
    "logical_xor": ("1 where one of a and b is 0, else 0", np.logical_xor),
}
_REVERSED = {"minus": "b - a", "div": "b / a", "power": "b to the power of a", "mod": "the remainder of b / a"}
_OTHER = {"plus": "add", "minus": "sub", "mul": "mul", "div": "div"}
"""Further names: elemwise_add, _add, broadcast_add."""


def _of_number(what: str, function: Function, is_reversed: bool = False) -> OperatorType:
    """Return the row of a function of an array a and a number b."""
    compute = _as_inputs(function)

    def with_number(x: Array, scalar: float) -> Array:
        fits = x.dtype.kind == "f" or scalar == int(scalar)
        need(fits, f"scalar={scalar} with an array of {x.dtype} is not supported")
        number = np.asarray(scalar).astype(x.dtype)
        return compute(number, x) if is_reversed else compute(x, number)

    source = "tensor/elemwise_binary_scalar_op_basic.cc"
    what = f"Compute {what} for a number b, the attribute scalar."
    return row(what, with_number, source, body={"is_int": ANY}, scalar=attribute("double"))


def _names(name: str) -> str:
    """Return the names for inputs of one shape: "_not_equal _Not_Equal", "_plus _Plus elemwise_add _add"."""
    other = _OTHER.get(name)
    more = f" elemwise_{other}" + f" _{other}" * (other != name) if other else ""
    return f"_{name} _{name.title()}{more}"


def _number_names(name: str, prefix: str = "") -> str:
    """Return the names for a number: "_not_equal_scalar _NotEqualScalar"."""
    return f"_{prefix}{name}_scalar _{prefix.title()}{name.title().replace('_', '')}Scalar"


_TWO = {name: computes(what, _as_inputs(function)) for name, (what, function) in OF_TWO.items()}
operators(
    {
        **{f"broadcast_{_OTHER.get(name, name)}": entry for name, entry in _TWO.items()},
        **{f"broadcast_{name}": _TWO[name] for name in ("plus", "minus")},
    },
    "a and b have one dtype, and their shapes broadcast as in NumPy.\n    "
    + SOURCE.format("tensor/elemwise_binary_broadcast_op_basic.cc"),
)
operators(
    {
        **{_names(name): entry for name, entry in _TWO.items()},
        "_grad_add": _TWO["plus"],
        "_scatter_elemwise_div": _TWO["div"],
        "_identity_with_attr_like_rhs": computes("the first input", lambda a, b: a),
        "add_n ElementWiseSum": computes("the sum of all inputs", lambda *xs: of_tensorflow("AddN")(*xs)),
    },
    "The inputs have one shape and one dtype.\n    " + SOURCE.format("tensor/elemwise_binary_op_basic.cc"),
    _need_one_type,
)
operators(
    {_number_names(name): _of_number(*pair) for name, pair in OF_TWO.items()}
    | {_number_names(name, "r"): _of_number(what, OF_TWO[name][1], True) for name, what in _REVERSED.items()}
)


def _smooth_l1(x: Array, scalar: float) -> Array:
    square, size, half = x.dtype.type(scalar * scalar), np.abs(x), x.dtype.type(0.5)
    return np.where(size < 1 / square, half * square * x * x, size - half / square)


_FUNCTIONS = {
    "abs": "Abs", "sign": "Sign", "negative": "Neg", "reciprocal": "Reciprocal", "square": "Square",
    "sqrt": "Sqrt", "rsqrt": "Rsqrt",
    "exp": "Exp", "expm1": "Expm1", "log": "Log", "log1p": "Log1p", "sin": "Sin", "cos": "Cos",
    "tan": "Tan", "arcsin": "Asin", "arccos": "Acos", "arctan": "Atan", "sinh": "Sinh", "cosh": "Cosh",
    "floor": "Floor", "ceil": "Ceil", "erf": "Erf", "relu": "Relu", "sigmoid": "Sigmoid", "tanh": "Tanh",
    "softsign": "Softsign",
}  # fmt: skip
_CONSTANTS = {"zeros_like": "ZerosLike", "ones_like": "OnesLike"}
"""Those whose dtype is that of the input, whatever `dtype` says, which MXNet does not read."""
operators(
    {
        **{name: row_of_tensorflow(kind) for name, kind in _FUNCTIONS.items()},
        **{name: replace(row_of_tensorflow(kind), body=training("dtype")) for name, kind in _CONSTANTS.items()},
        "cbrt": computes("the cube root of x", np.cbrt),
        "rcbrt": computes("1 / the cube root of x", lambda x: 1 / np.cbrt(x)),
        "log2": computes("the binary logarithm of x", np.log2),
        "log10": computes("the decimal logarithm of x", np.log10),
        **{name: computes(f"numpy.{name}", getattr(np, name))
           for name in ("arcsinh", "arccosh", "arctanh", "degrees", "radians")},
        "_contrib_quadratic": row("Compute a * x^2 + b * x + c.",
            lambda x, a, b, c: x.dtype.type(a) * x * x + x.dtype.type(b) * x + x.dtype.type(c),
            **dict.fromkeys("abc", attribute("double", 0.0))),
        "_contrib_sign_ste": computes("the sign of x", np.sign),
        "trunc fix": computes("x, rounded towards 0 to an integer", np.trunc),
        "round _contrib_round_ste": computes("x, rounded to the nearest integer, halves away from 0",
            round_half_away),
        "rint": computes("x, rounded to the nearest integer, halves down",
            lambda x: np.ceil(x - x.dtype.type(0.5))),
        "logical_not": computes("1 where x is 0, else 0", lambda x: (x == 0).astype(x.dtype)),
        "smooth_l1": row("Compute (s * x)^2 / 2 where |x| < 1 / s^2, else |x| - 0.5 / s^2; s is scalar.",
            _smooth_l1, scalar=attribute("double", 1.0)),
        "clip": row("Clip x to the interval from a_min to a_max.",
            lambda x, a_min, a_max: np.clip(x, x.dtype.type(a_min), x.dtype.type(a_max)),
            a_min=attribute("double"), a_max=attribute("double")),
    },
    "The output has the shape of the input.\n    " + SOURCE.format("tensor/elemwise_unary_op_basic.cc"),
)  # fmt: skip
