"""Fusions of ONNX Runtime that would change results are switched off."""

import numpy as np

from anylayer import ops
from anylayer.testing import check_function


def test_zero_padding_is_the_maximum_of_negative_values() -> None:
    x = -1 - np.arange(25, dtype=np.float32).reshape(1, 1, 5, 5)
    check_function(lambda x: ops.max_pool(np.pad(x, [(0, 0), (0, 0), (0, 1), (0, 1)]), 2, strides=2), x)
