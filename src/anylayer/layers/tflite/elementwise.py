"""Functions of elements: arithmetic, comparisons, activations, casts."""

from __future__ import annotations

import numpy as np

from anylayer import ops
from anylayer.layer import Array, attribute, need
from anylayer.layers._table import computes, operators, row
from anylayer.layers.tflite._base import (
    SOURCE,
    TFLiteLayer,
    fused_row,
    need_one_dtype,
    of_tensorflow,
    same_as,
)

_FUNCTIONS = {
    "ABS": "Abs", "CEIL": "Ceil", "COS": "Cos", "EXP": "Exp", "FLOOR": "Floor", "LOG": "Log",
    "LOGICAL_NOT": "LogicalNot", "NEG": "Neg", "ROUND": "Round", "RSQRT": "Rsqrt", "SIGN": "Sign", "SIN": "Sin",
    "SQRT": "Sqrt", "SQUARE": "Square", "RELU": "Relu", "RELU6": "Relu6", "ELU": "Elu", "TANH": "Tanh",
    "LOGISTIC": "Sigmoid", "LOG_SOFTMAX": "LogSoftmax", "ZEROS_LIKE": "ZerosLike",
}  # fmt: skip
_OF_TWO = {
    "MAXIMUM": "Maximum", "MINIMUM": "Minimum", "POW": "Pow", "SQUARED_DIFFERENCE": "SquaredDifference",
    "FLOOR_DIV": "FloorDiv", "FLOOR_MOD": "FloorMod", "LOGICAL_AND": "LogicalAnd", "LOGICAL_OR": "LogicalOr",
    "EQUAL": "Equal", "NOT_EQUAL": "NotEqual", "GREATER": "Greater", "GREATER_EQUAL": "GreaterEqual",
    "LESS": "Less", "LESS_EQUAL": "LessEqual", "ADD_N": "AddN",
}  # fmt: skip


def _half_to_float(x: Array) -> Array:
    need(x.dtype == np.float16, f"only float16 is supported, got {x.dtype}")
    return x.astype(np.float32)


operators(
    TFLiteLayer,
    f"The output has the shape of the input.\n    {SOURCE}",
    {
        **{name: same_as(kind, "elementwise or activations") for name, kind in _FUNCTIONS.items()},
        "RELU_N1_TO_1": computes("min(max(x, -1), 1)", lambda x: np.clip(x, -1, 1), "activations"),
        "RELU_0_TO_1": computes("min(max(x, 0), 1)", lambda x: np.clip(x, 0, 1), "activations"),
        "LEAKY_RELU": row("Compute x where x > 0, else alpha * x.", ops.leaky_relu, "activations",
            alpha=attribute("float")),
        "HARD_SWISH": computes("x * min(max(x + 3, 0), 6) / 6",
            lambda x: x * np.clip(x + np.float32(3), 0, 6) / np.float32(6), "activations"),
        "GELU": row("Compute x * P(X <= x) for a standard normal X, or its approximation by tanh.",
            lambda x, approximate: ops.gelu(x, "tanh" if approximate else "none"), "gelu",
            approximate=attribute("bool", False)),
        "PRELU": computes("x where x >= 0, else alpha * x; alpha is the second input and broadcasts",
            lambda x, alpha: np.where(x >= 0, x, x * alpha), "activations"),
        "SOFTMAX": row("Compute exp(beta * x), divided by its sum over the last axis.",
            lambda x, beta: ops.softmax(x * np.float32(beta), axis=-1), "activations", beta=attribute("float")),
        "CAST": row("Cast the elements to the dtype of the output; real numbers are truncated to integers.",
            lambda x, *, dtypes: x.astype(dtypes[0]), "cast",
            body={"in_data_type": attribute("string", ""), "out_data_type": attribute("string", "")}),
        "DEQUANTIZE": row("Cast float16 to float32.", _half_to_float, "dequantize"),
    },
)  # fmt: skip
operators(
    TFLiteLayer,
    f"a and b have one dtype, and their shapes broadcast as in NumPy.\n    {SOURCE}",
    {
        **{name: same_as(kind, "comparisons or of this name") for name, kind in _OF_TWO.items()},
        "ADD": fused_row("Compute a + b.", lambda a, b: a + b, "add"),
        "SUB": fused_row("Compute a - b.", lambda a, b: a - b, "sub"),
        "MUL": fused_row("Compute a * b.", lambda a, b: a * b, "mul"),
        "DIV": fused_row("Compute a / b, rounded towards zero for integers.",
            lambda a, b: of_tensorflow("Div")(a, b), "div"),
    },
    check=need_one_dtype,
)  # fmt: skip
operators(
    TFLiteLayer,
    SOURCE,
    {"SELECT": same_as("Select", "select"), "SELECT_V2": same_as("SelectV2", "select")},
    check=lambda self, condition, a, b: need_one_dtype(self, a, b),
)
