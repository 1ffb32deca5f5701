"""Operations that give what they get."""

import numpy as np

from tests.layers.tensorflow.recorded import as_tensorflow, rejects

test_identity = as_tensorflow("Identity")
test_shape = rejects(
    "EnsureShape", {"shape": [1, None]}, np.zeros((2, 3)), text="the shape must be [1, None], got [2, 3]"
)
test_types = rejects("IdentityN", {"T": "float32", "K": 1}, np.zeros(2), text="attr has no field 'K'")
