"""Functions of two values."""

import numpy as np

from tests.layers.tensorflow.recorded import as_tensorflow, rejects

test_binary = as_tensorflow(
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
test_dtypes = rejects(
    "Mul",
    {},
    np.zeros(2, np.float32),
    np.zeros(2, np.int32),
    text="both inputs must be of one dtype, got float32 and int32",
)
test_shapes = rejects("AddN", {}, np.zeros(2), np.zeros(3), text="all inputs must be of shape (2,), got (3,)")
test_select = rejects(
    "Select",
    {},
    np.zeros(2, bool),
    np.zeros(2),
    np.zeros(3),
    text="both values must be of one shape, got (2,) and (3,)",
)
