"""BiasAdd."""

import numpy as np

from tests.layers.tensorflow.recorded import as_tensorflow, rejects

test_bias = as_tensorflow("BiasAdd")
test_channels = rejects(
    "BiasAdd",
    {},
    np.zeros((2, 3)),
    np.zeros(4),
    text="the bias must be of shape (3,), one number a channel, got (4,)",
)
