"""Functions of elements: arithmetic, comparisons, activations, casts."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from anylayer import ops
from anylayer.layer import Array, attribute, need
from anylayer.layers._table import computes, need_one_dtype, of_tensorflow, operators, row
from anylayer.layers.tflite._base import SOURCE, TFLiteLayer, fused_row, same_as
from anylayer.layers.tflite._quantized import (
    comparison,
    in_16_bits,
    sigmoid_by_table,
    softmax_by_table,
    tanh_by_table,
)

_FUNCTIONS = {
    "ABS": "Abs", "CEIL": "Ceil", "COS": "Cos", "EXP": "Exp", "FLOOR": "Floor", "LOG": "Log",
    "LOGICAL_NOT": "LogicalNot", "NEG": "Neg", "ROUND": "Round", "RSQRT": "Rsqrt", "SIGN": "Sign", "SIN": "Sin",
    "SQRT": "Sqrt", "SQUARE": "Square", "RELU": "Relu", "RELU6": "Relu6", "ELU": "Elu",
    "LOG_SOFTMAX": "LogSoftmax", "ZEROS_LIKE": "ZerosLike",
}  # fmt: skip
_OF_TWO = {
    "MAXIMUM": "Maximum", "MINIMUM": "Minimum", "POW": "Pow", "SQUARED_DIFFERENCE": "SquaredDifference",
    "FLOOR_DIV": "FloorDiv", "FLOOR_MOD": "FloorMod", "LOGICAL_AND": "LogicalAnd", "LOGICAL_OR": "LogicalOr",
    "ADD_N": "AddN",
}  # fmt: skip
_COMPARISONS = {
    "EQUAL": "Equal", "NOT_EQUAL": "NotEqual", "GREATER": "Greater", "GREATER_EQUAL": "GreaterEqual",
    "LESS": "Less", "LESS_EQUAL": "LessEqual",
}  # fmt: skip


def _to_float(x: Array) -> Array:
    need(x.dtype.kind == "f", f"an input of {x.dtype} has no scale")
    return x.astype(np.float32)


def _bucketize(x: Array, boundaries: Sequence[float]) -> Array:
    reached = x[..., None] >= np.array([*boundaries], np.float32).astype(x.dtype)
    return reached.sum(axis=-1).astype(np.int32)


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
        "BUCKETIZE": row("Count the boundaries, an ascending list, that are not above an element.", _bucketize,
            "bucketize", boundaries=attribute("float", repeated=True)),
        "PRELU": computes("x where x >= 0, else alpha * x; alpha is the second input and broadcasts",
            lambda x, alpha: np.where(x >= 0, x, x * alpha), "activations"),
        "TANH": same_as("Tanh", "activations", in_16_bits(tanh_by_table)),
        "LOGISTIC": same_as("Sigmoid", "activations", in_16_bits(sigmoid_by_table)),
        "SOFTMAX": row("Compute exp(beta * x), divided by its sum over the last axis.",
            in_16_bits(softmax_by_table)(lambda x, beta: ops.softmax(x * np.float32(beta), axis=-1)),
            "activations", beta=attribute("float")),
        "CAST": row("Cast the elements to the dtype of the output; real numbers are truncated to integers.",
            lambda x, *, dtypes: x.astype(dtypes[0]), "cast",
            body={"in_data_type": attribute("string", ""), "out_data_type": attribute("string", "")}),
        "DEQUANTIZE": row("Compute the float32 numbers of quantized or float16 ones.", _to_float, "dequantize"),
        "QUANTIZE": row("Round numbers to the scale and the zero point of the output.", _to_float, "quantize"),
        "FAKE_QUANT": same_as("FakeQuantWithMinMaxArgs", "fake_quant"),
    },
)  # fmt: skip
operators(
    TFLiteLayer,
    f"a and b have one dtype, and their shapes broadcast as in NumPy.\n    {SOURCE}",
    {
        **{name: same_as(kind, "of this name") for name, kind in _OF_TWO.items()},
        **{name: same_as(kind, "comparisons", comparison) for name, kind in _COMPARISONS.items()},
        "ADD": fused_row("Compute a + b.", lambda a, b: a + b, "add"),
        "SUB": fused_row("Compute a - b.", lambda a, b: a - b, "sub"),
        "MUL": fused_row("Compute a * b.", lambda a, b: a * b, "mul"),
        "DIV": fused_row("Compute a / b, rounded towards zero for integers.",
            lambda a, b: of_tensorflow("Div")(a, b), "div"),
        "ATAN2": same_as("Atan2", "atan2"),
        "BITWISE_XOR": computes("the bits that differ", np.bitwise_xor, "bitwise_xor"),
        "RIGHT_SHIFT": computes("a >> b", np.right_shift, "right_shift"),
    },
    check=need_one_dtype,
)  # fmt: skip
operators(
    TFLiteLayer,
    SOURCE,
    {"SELECT": same_as("Select", "select"), "SELECT_V2": same_as("SelectV2", "select")},
    check=lambda self, condition, a, b: need_one_dtype(self, a, b),
)
