"""Constants."""

import numpy as np

from tests.layers.tensorflow.recorded import rejects

test_needs_a_value = rejects("Const", {"dtype": "float32"}, text="a constant has one value, got 0")
test_ranks = rejects("Const", {"dtyp": "float32"}, np.float32(1), text="attr has no field 'dtyp'")
