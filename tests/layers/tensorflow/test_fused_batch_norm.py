"""Tests of batch normalization."""

import numpy as np

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
    text="mean must have the shape (4,) of scale, got (3,)",
    tops=6,
)
test_old_batch_norm_rejects_missing_epsilon = rejects(
    "BatchNormWithGlobalNormalization",
    {"scale_after_normalization": True},
    *(X, V, V, V, V),
    text="parameter 'variance_epsilon' is missing",
)
