"""LRN."""

import numpy as np

from tests.layers.harness import case, noise, ramp, rejects

X = noise(2, 6, 3, 4)


def across(x: np.ndarray, size: int, alpha: float, beta: float, k: float) -> np.ndarray:
    squares = np.pad(x.astype(float) ** 2, [(0, 0), (size // 2, size // 2), (0, 0), (0, 0)])
    total = sum(squares[:, i : i + x.shape[1]] for i in range(size))
    return (x * (k + alpha / size * total) ** -beta).astype(np.float32)


def within(x: np.ndarray, size: int, alpha: float, beta: float) -> np.ndarray:
    p, (_, _, h, w) = size // 2, x.shape
    squares = np.pad(x.astype(float) ** 2, [(0, 0), (0, 0), (p, p), (p, p)])
    total = sum(squares[:, :, i : i + h, j : j + w] for i in range(size) for j in range(size))
    return (x * (1 + alpha * total / size**2) ** -beta).astype(np.float32)


test_default = case("LRN", inputs=[X], outputs=[across(X, 5, 1, 0.75, 1)])
test_across = case(
    "LRN", {"local_size": 3, "alpha": 2.0, "beta": 0.5, "k": 2.0}, inputs=[X], outputs=[across(X, 3, 2, 0.5, 2)]
)
test_wider_than_the_channels = case("LRN", {"local_size": 15}, inputs=[X], outputs=[across(X, 15, 1, 0.75, 1)])
test_within_leaves_k_out = case(
    "LRN",
    {"norm_region": "WITHIN_CHANNEL", "local_size": 3, "alpha": 2.0, "k": 9.0},
    inputs=[X],
    outputs=[within(X, 3, 2, 0.75)],
)
test_rejects_even_local_size = rejects("LRN", {"local_size": 4}, inputs=[X], text="local_size must be odd, got 4")
test_rejects_input_without_4_axes = rejects(
    "LRN", inputs=[ramp(2, 3)], text="needs an input (N, C, H, W), got shape (2, 3)"
)
