"""Whole numbers of quantised tensors as real numbers."""

import numpy as np

from tests.layers.tensorflow.recorded import as_tensorflow, rejects

Q = np.arange(6, dtype=np.uint8).reshape(2, 3)

test_dequantize = as_tensorflow("Dequantize")
test_whole_numbers = rejects(
    "Dequantize", {}, Q / 2, np.float32(0), np.float32(1), text="takes whole numbers, got float"
)
test_axis_needs_another_mode = rejects(
    "Dequantize",
    {"mode": "MIN_FIRST", "axis": 1},
    Q,
    np.zeros(3),
    np.ones(3),
    text="axis=1 needs another mode than MIN_FIRST",
)
test_one_bound = rejects(
    "Dequantize", {}, Q, np.zeros(3), np.ones(3), text="min_range must be one number, got shape (3,)"
)
test_one_bound_per_slice = rejects(
    "Dequantize",
    {"axis": 1},
    Q,
    np.zeros(3),
    np.ones(2),
    text="max_range must be 3 numbers, one per slice of axis 1, got 2",
)
test_real_numbers = rejects(
    "Dequantize",
    {"dtype": "bfloat16"},
    Q,
    np.float32(0),
    np.float32(1),
    text="dtype must be float32, got bfloat16",
)
