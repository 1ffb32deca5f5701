"""Tests of BiasAdd."""

import numpy as np

from tests.layers.tensorflow.recorded import as_tensorflow, rejects

test_bias_add_matches_tensorflow = as_tensorflow("BiasAdd")
test_rejects_bias_of_other_size = rejects(
    "BiasAdd",
    {},
    np.zeros((2, 3)),
    np.zeros(4),
    text="the bias must be of shape (3,), one number per channel, got (4,)",
)
