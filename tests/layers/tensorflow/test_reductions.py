"""Tests of the reductions."""

import numpy as np

from anylayer.layers._arrays import cumulative_sum
from anylayer.testing import check_function
from tests.layers.harness import case, ramp
from tests.layers.tensorflow.recorded import as_tensorflow, rejects

test_reductions_match_tensorflow = as_tensorflow(
    *["Mean", "Sum", "Prod", "Max", "Min", "All", "Any", "EuclideanNorm", "ArgMax", "ArgMin", "Cumsum"]
)
X = np.zeros((2, 3), np.float32)
test_mean_rejects_axis_out_of_range = rejects(
    "Mean", {}, X, np.int32([2]), text="reduction_indices must lie in -2..1 for 2 axes, got 2"
)
test_sum_rejects_repeated_axis = rejects(
    "Sum", {}, X, np.int32([1, -1]), text="reduction_indices names an axis twice: [1, -1]"
)
test_max_rejects_real_axis = rejects(
    "Max", {}, X, np.float32([1]), text="reduction_indices must be integers, got float32"
)
test_argmax_rejects_axis_out_of_range = rejects(
    "ArgMax", {}, X, np.int32(5), text="dimension must lie in -2..1 for 2 axes, got 5"
)
test_l2_loss = case("L2Loss", inputs=[ramp(2, 2)], outputs=[np.float32(7)], format="tensorflow")


def test_exclusive_cumulative_sum_starts_with_zero_and_takes_infinite_values() -> None:
    x = np.float32([[1, np.inf, 2], [3, 4, 5]])
    check_function(lambda x: cumulative_sum(x, 1, exclusive=True, reverse=False), x)
    np.testing.assert_array_equal(cumulative_sum(x, 1, True, False), np.float32([[0, 1, np.inf], [0, 3, 7]]))
    np.testing.assert_array_equal(cumulative_sum(x, 1, True, True), np.float32([[np.inf, 2, 0], [9, 5, 0]]))
