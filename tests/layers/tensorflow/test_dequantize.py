"""Tests of Dequantize."""

import numpy as np

from tests.layers.tensorflow.recorded import as_tensorflow, rejects

Q = np.arange(6, dtype=np.uint8).reshape(2, 3)

test_dequantize_matches_tensorflow = as_tensorflow("Dequantize")
test_rejects_real_numbers = rejects(
    "Dequantize", {}, Q / 2, np.float32(0), np.float32(1), text="the input must hold integers, got float"
)
test_rejects_axis_with_min_first = rejects(
    "Dequantize",
    {"mode": "MIN_FIRST", "axis": 1},
    Q,
    np.zeros(3),
    np.ones(3),
    text="mode MIN_FIRST needs axis=-1, got axis=1",
)
test_rejects_several_bounds_without_axis = rejects(
    "Dequantize", {}, Q, np.zeros(3), np.ones(3), text="min_range must be one number, got shape (3,)"
)
test_rejects_too_few_bounds_for_axis = rejects(
    "Dequantize",
    {"axis": 1},
    Q,
    np.zeros(3),
    np.ones(2),
    text="max_range must be 3 numbers, one per slice of axis 1, got 2",
)
test_rejects_output_dtype_other_than_float32 = rejects(
    "Dequantize",
    {"dtype": "bfloat16"},
    Q,
    np.float32(0),
    np.float32(1),
    text="dtype must be float32, got bfloat16",
)
