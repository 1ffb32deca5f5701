"""Tests of the elementwise operations on one input, and of Cast."""

import numpy as np

from tests.layers.tensorflow.recorded import as_tensorflow, rejects

test_unary_matches_tensorflow = as_tensorflow(
    *[
        "Abs",
        "Neg",
        "Sign",
        "Square",
        "Sqrt",
        "Rsqrt",
        "Reciprocal",
        "Exp",
        "Expm1",
        "Log",
        "Log1p",
        "Tanh",
        "Sinh",
        "Cosh",
        "Sin",
        "Cos",
        "Tan",
        "Asin",
        "Acos",
        "Atan",
    ],
    *["Floor", "Ceil", "Round", "Rint", "Erf", "LogicalNot", "ZerosLike", "OnesLike", "Cast"],
)
test_cast_rejects_unknown_dtype = rejects(
    "Cast", {"DstT": "bfloat16"}, np.zeros(2), text="must be one of bool, float16, float32, float64"
)
