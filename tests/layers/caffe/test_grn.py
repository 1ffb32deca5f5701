"""GRN."""

import numpy as np

from tests.layers.harness import case, noise, rejects

N = noise(2, 3, 4, 5)
test_bias = case("GRN", {"bias": 2}, inputs=[N], outputs=[N / np.sqrt((N * N).sum(1, keepdims=True) + 2)])
test_default_bias_is_1 = case("GRN", inputs=[[[[[2]], [[2]]]]], outputs=[[[[[2 / 3]], [[2 / 3]]]]])
test_rejects_negative_bias = rejects("GRN", {"bias": -1}, inputs=[N], text="bias must be at least 0, got -1")
test_rejects_input_without_4_axes = rejects(
    "GRN", inputs=[[1]], text="input 0 must be of shape (N, C, H, W), got (1,)"
)
