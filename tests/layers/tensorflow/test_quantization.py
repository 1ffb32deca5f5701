"""Tests of the operations that round values to quantized steps."""

import numpy as np

from tests.layers.tensorflow.recorded import as_tensorflow, rejects

test_fake_quant_matches_tensorflow = as_tensorflow(
    "FakeQuantWithMinMaxArgs", "FakeQuantWithMinMaxVars", "FakeQuantWithMinMaxVarsPerChannel"
)
test_rejects_one_bit = rejects(
    "FakeQuantWithMinMaxArgs", {"num_bits": 1}, np.zeros(2), text="num_bits must lie in 2..16, got 1"
)
test_rejects_empty_range = rejects(
    "FakeQuantWithMinMaxArgs", {"min": 1.0, "max": 1.0}, np.zeros(2), text="min must be below max"
)
