"""Morphology."""

import numpy as np

from tests.layers.tensorflow.recorded import as_tensorflow, rejects

test_dilation = as_tensorflow("Dilation2D")
test_channels = rejects(
    "Dilation2D",
    {"strides": [1, 1, 1, 1], "rates": [1, 1, 1, 1], "padding": "SAME"},
    *(np.zeros((1, 4, 4, 2)), np.zeros((2, 2, 3))),
    text="pictures (N, H, W, C) and a filter (h, w, C) are needed, got (1, 4, 4, 2) and (2, 2, 3)",
)
