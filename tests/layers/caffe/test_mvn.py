"""MVN."""

import numpy as np

from tests.layers.harness import case, noise, ramp, rejects

X = noise(2, 3, 4, 5)


def normal(x: np.ndarray, axes: tuple[int, ...], eps: float = 1e-9) -> np.ndarray:
    x = x.astype(float)
    return ((x - x.mean(axes, keepdims=True)) / (x.std(axes, keepdims=True) + eps)).astype(np.float32)


test_by_channel = case("MVN", inputs=[X], outputs=[normal(X, (2, 3))])
test_across_channels = case("MVN", {"across_channels": True}, inputs=[X], outputs=[normal(X, (1, 2, 3))])
test_eps_is_added_to_the_deviation = case("MVN", {"eps": 0.5}, inputs=[X], outputs=[normal(X, (2, 3), 0.5)])
test_mean_only = case(
    "MVN", {"normalize_variance": False}, inputs=[X], outputs=[X - X.mean((2, 3), keepdims=True)]
)
test_fewer_axes_become_four = case(
    "MVN", {"across_channels": True}, inputs=[[[1, 3]]], outputs=[np.float32([-1, 1]).reshape(1, 2, 1, 1)]
)
test_rejects_input_with_5_axes = rejects(
    "MVN",
    inputs=[ramp(1, 1, 1, 1, 2)],
    text="needs an input of at most 4 axes (N, C, H, W), got shape (1, 1, 1, 1, 2)",
)
