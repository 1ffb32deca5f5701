"""BatchNorm."""

import numpy as np

from tests.layers.harness import case, noise, ramp, rejects

X = noise(2, 3, 4, 5)
MEAN, VARIANCE = np.float32([2, -4, 6]), np.float32([2, 8, 18])


def normal(x: np.ndarray, mean: np.ndarray, variance: np.ndarray, eps: float = 1e-5) -> np.ndarray:
    """Compute the formula in float64."""
    along = (1, -1, *(1,) * (x.ndim - 2))
    return ((x - mean.reshape(along)) / np.sqrt(variance.reshape(along).astype(float) + eps)).astype(np.float32)


test_stored = case(
    "BatchNorm",
    inputs=[X],
    blobs=[MEAN, VARIANCE, np.float32([1])],
    outputs=[normal(X, MEAN, VARIANCE)],
)
test_factor = case(
    "BatchNorm",
    {"eps": 0.5},
    inputs=[X],
    blobs=[MEAN, VARIANCE, np.float32([2])],
    outputs=[normal(X, MEAN / 2, VARIANCE / 2, 0.5)],
)
test_factor_0_means_statistics_of_0 = case(
    "BatchNorm",
    inputs=[[[3, 4, 5]]],
    blobs=[MEAN, VARIANCE, np.float32([0])],
    outputs=[[[948.68330, 1264.9111, 1581.1388]]],
)
test_batch_statistics = case(
    "BatchNorm",
    {"use_global_stats": False},
    inputs=[X],
    outputs=[normal(X, X.mean((0, 2, 3)), X.var((0, 2, 3)))],
)
test_one_axis_is_one_channel = case(
    "BatchNorm", {"eps": 0}, inputs=[[3, 5]], blobs=[[1.0], [4.0], [1.0]], outputs=[[1, 2]]
)
test_two_axes = case(
    "BatchNorm", {"eps": 0}, inputs=[[[3, 5]]], blobs=[[1.0, 1.0], [4.0, 1.0], [1.0]], outputs=[[[1, 4]]]
)
test_rejects_statistics_for_other_number_of_channels = rejects(
    "BatchNorm", inputs=[X], blobs=[MEAN[:2], VARIANCE, ramp(1)], text="blob 0 (mean) has shape (2,)"
)
test_rejects_missing_factor_blob = rejects(
    "BatchNorm", inputs=[X], blobs=[MEAN, VARIANCE], text="blob 2 (factor) is missing"
)
test_rejects_unknown_field = rejects(
    "BatchNorm", {"epsilon": 1e-3}, inputs=[X], text="batch_norm_param has no field 'epsilon'"
)
