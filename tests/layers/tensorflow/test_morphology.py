"""Tests of the morphological operations."""

import numpy as np

from tests.layers.tensorflow.recorded import as_tensorflow, rejects

test_dilation_matches_tensorflow = as_tensorflow("Dilation2D")
test_dilation_rejects_other_channels = rejects(
    "Dilation2D",
    {"strides": [1, 1, 1, 1], "rates": [1, 1, 1, 1], "padding": "SAME"},
    *(np.zeros((1, 4, 4, 2)), np.zeros((2, 2, 3))),
    text="expected images (N, H, W, C) and a filter (h, w, C), got (1, 4, 4, 2) and (2, 2, 3)",
)
