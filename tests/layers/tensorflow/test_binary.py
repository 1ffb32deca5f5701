"""Tests of the elementwise operations on two or more inputs."""

import numpy as np

from tests.layers.tensorflow.recorded import as_tensorflow, rejects

test_binary_matches_tensorflow = as_tensorflow(
    *[
        "Add",
        "AddV2",
        "Sub",
        "Mul",
        "RealDiv",
        "Div",
        "DivNoNan",
        "TruncateDiv",
        "FloorDiv",
        "FloorMod",
        "TruncateMod",
        "Maximum",
        "Minimum",
        "Pow",
    ],
    *[
        "SquaredDifference",
        "Greater",
        "GreaterEqual",
        "Less",
        "LessEqual",
        "Equal",
        "NotEqual",
        "LogicalAnd",
        "LogicalOr",
        "AddN",
    ],
    *["ClipByValue", "Select", "SelectV2"],
)
test_rejects_different_dtypes = rejects(
    "Mul",
    {},
    np.zeros(2, np.float32),
    np.zeros(2, np.int32),
    text="both inputs must have the same dtype, got float32 and int32",
)
test_add_n_rejects_different_shapes = rejects(
    "AddN", {}, np.zeros(2), np.zeros(3), text="each input must be of shape (2,), as the first, got (3,)"
)
test_select_rejects_different_shapes = rejects(
    "Select",
    {},
    np.zeros(2, bool),
    np.zeros(2),
    np.zeros(3),
    text="the second value must be of shape (2,), as the first, got (3,)",
)
