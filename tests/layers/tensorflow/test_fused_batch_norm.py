"""Batch normalisation."""

import numpy as np

from tests.layers.tensorflow.recorded import as_tensorflow, rejects

test_norm = as_tensorflow("FusedBatchNorm", "FusedBatchNormV2", "FusedBatchNormV3")
X, V = np.zeros((1, 5, 5, 4), np.float32), np.ones(4, np.float32)
test_channels = rejects(
    "FusedBatchNormV3",
    {"is_training": False},
    X,
    V,
    V,
    V[:3],
    V,
    text="mean must be of shape (4,), got (3,)",
    tops=6,
)
test_old = rejects(
    "BatchNormWithGlobalNormalization",
    {"scale_after_normalization": True},
    *(X, V, V, V, V),
    text="parameter 'variance_epsilon' is missing",
)
