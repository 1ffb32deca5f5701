"""Reduction."""

import numpy as np

from tests.layers.harness import case, ramp, rejects

X = np.float32([[[1, -2], [3, 4]], [[0, 1], [-1, 2]]])

test_sum_of_all = case("Reduction", inputs=[X], outputs=[np.float32(8)])
test_absolute_sum = case("Reduction", {"operation": "ASUM", "axis": 1}, inputs=[X], outputs=[[10, 4]])
test_sum_of_squares = case("Reduction", {"operation": "SUMSQ", "axis": 1}, inputs=[X], outputs=[[30, 6]])
test_mean = case("Reduction", {"operation": "MEAN", "axis": -1}, inputs=[X], outputs=[[[-0.5, 3.5], [0.5, 0.5]]])
test_coefficient = case("Reduction", {"coeff": 0.5, "axis": 1}, inputs=[X], outputs=[[3, 1]])
test_rejects_axis_beyond_rank = rejects("Reduction", {"axis": 3}, inputs=[X], text="axis must lie in -3..2")
test_rejects_unknown_operation = rejects(
    "Reduction", {"operation": "MAX"}, inputs=[ramp(2)], text="must be one of SUM, ASUM, SUMSQ, MEAN, got MAX"
)
