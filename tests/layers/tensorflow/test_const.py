"""Tests of Const."""

import numpy as np

from tests.layers.tensorflow.recorded import rejects

test_rejects_missing_value = rejects(
    "Const", {"dtype": "float32"}, text="a constant needs one value in the file, got 0"
)
test_rejects_unknown_attribute = rejects(
    "Const", {"dtyp": "float32"}, np.float32(1), text="attr has no field 'dtyp'"
)
