"""Axpy."""

import numpy as np

from tests.layers.harness import case, noise, rejects

A, X, Y = noise(2, 3), noise(2, 3, 4, 5, seed=1), noise(2, 3, 4, 5, seed=2)
SUM = A.reshape(2, 3, 1, 1) * X + Y
test_four_axes = case("Axpy", inputs=[A.reshape(2, 3, 1, 1), X, Y], outputs=[SUM])
test_two_axes = case("Axpy", inputs=[A, X, Y], outputs=[SUM])
test_rejects_summands_of_different_shapes = rejects(
    "Axpy",
    inputs=[A, X, Y[:, :, :3]],
    text="input 2 must be of shape (2, 3, 4, 5), as input 1, got (2, 3, 3, 5)",
)
test_rejects_input_without_channels = rejects(
    "Axpy", inputs=[A, A[0], A[0]], text="input 1 must be of shape (N, C, ...), got (3,)"
)
test_rejects_scale_that_is_not_one_value_per_channel = rejects(
    "Axpy",
    inputs=[np.ones((2, 1)), X, Y],
    text="input 0 must be of shape (2, 3) or (2, 3, 1, 1), one value per channel, got (2, 1)",
)
