"""Reductions."""

import numpy as np

from tests.layers.tensorflow.recorded import as_tensorflow, rejects

test_reductions = as_tensorflow(
    *["Mean", "Sum", "Prod", "Max", "Min", "All", "Any", "EuclideanNorm", "ArgMax", "ArgMin", "Cumsum"]
)
X = np.zeros((2, 3), np.float32)
test_axis = rejects("Mean", {}, X, np.int32([2]), text="reduction_indices must lie in -2..1 for 2 axes, got 2")
test_twice = rejects("Sum", {}, X, np.int32([1, -1]), text="reduction_indices names an axis twice: [1, -1]")
test_whole = rejects("Max", {}, X, np.float32([1]), text="reduction_indices must be whole numbers, got float32")
test_best = rejects("ArgMax", {}, X, np.int32(5), text="dimension must lie in -2..1 for 2 axes, got 5")
