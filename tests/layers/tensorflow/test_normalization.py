"""Tests of batch normalization."""

from typing import Any

import numpy as np

from tests.layers.harness import case, ramp
from tests.layers.tensorflow.recorded import as_tensorflow, rejects

test_batch_norm_matches_tensorflow = as_tensorflow("FusedBatchNorm", "FusedBatchNormV2", "FusedBatchNormV3")
X, V = np.zeros((1, 5, 5, 4), np.float32), np.ones(4, np.float32)
test_rejects_mean_of_other_size = rejects(
    "FusedBatchNormV3",
    {"is_training": False},
    X,
    V,
    V,
    V[:3],
    V,
    text="mean must be of shape (4,), as scale, got (3,)",
    tops=6,
)
test_old_batch_norm_rejects_missing_epsilon = rejects(
    "BatchNormWithGlobalNormalization",
    {"scale_after_normalization": True},
    *(X, V, V, V, V),
    text="parameter 'variance_epsilon' is missing",
)


def old_batch_norm(scaled: bool, factor: list[float]) -> Any:
    """Return a test that (x - mean) is multiplied by `factor` per channel."""
    y = (ramp(1, 2, 2, 2) - np.float32([1, 2])) * np.float32(factor) + np.float32([5, 6])
    return case(
        "BatchNormWithGlobalNormalization",
        {"variance_epsilon": 0.25, "scale_after_normalization": scaled},
        inputs=[ramp(1, 2, 2, 2), [1, 2], [0, 0.75], [5, 6], [2, 1]],
        outputs=[y],
        format="tensorflow",
    )


test_old_batch_norm_with_gamma = old_batch_norm(True, [4, 1])
test_old_batch_norm_without_gamma = old_batch_norm(False, [2, 1])
