"""Softmax."""

import numpy as np

from tests.layers.harness import case, noise, rejects

X = noise(2, 3, 4)


def softmax(x: np.ndarray, axis: int) -> np.ndarray:
    e = np.exp(x.astype(float))
    return (e / e.sum(axis, keepdims=True)).astype(np.float32)


test_axis_1 = case("Softmax", inputs=[X], outputs=[softmax(X, 1)])
test_negative_axis = case("Softmax", {"axis": -1}, inputs=[X], outputs=[softmax(X, 2)])
test_large_values = case("Softmax", inputs=[[[1000, 1000]]], outputs=[[[0.5, 0.5]]])
test_rejects_axis_beyond_rank = rejects("Softmax", {"axis": 3}, inputs=[X], text="axis must lie in -3..2")
