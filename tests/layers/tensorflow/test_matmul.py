"""Tests of the matrix products."""

import numpy as np

from tests.layers.tensorflow.recorded import as_tensorflow, rejects

test_matmul_matches_tensorflow = as_tensorflow("MatMul", "BatchMatMul", "BatchMatMulV2", "Einsum")
test_matmul_rejects_columns_unlike_rows = rejects(
    "MatMul", {}, np.zeros((2, 3)), np.zeros((4, 2)), text="a has 3 columns, but b has 4 rows"
)
test_matmul_rejects_three_axes = rejects(
    "MatMul",
    {},
    np.zeros((2, 3, 1)),
    np.zeros((4, 2)),
    text="both inputs must be matrices (2 axes), got shapes (2, 3, 1)",
)
test_batch_matmul_rejects_columns_unlike_rows = rejects(
    "BatchMatMulV2", {}, np.zeros((2, 3)), np.zeros((4, 2)), text="a has 3 columns, but b has 4 rows"
)
