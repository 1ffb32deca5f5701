"""Products of matrices."""

import numpy as np

from tests.layers.tensorflow.recorded import as_tensorflow, rejects

test_matmul = as_tensorflow("MatMul", "BatchMatMul", "BatchMatMulV2", "Einsum")
test_fit = rejects("MatMul", {}, np.zeros((2, 3)), np.zeros((4, 2)), text="3 columns do not fit 4 rows")
test_rank = rejects(
    "MatMul", {}, np.zeros((2, 3, 1)), np.zeros((4, 2)), text="two matrices are multiplied, got shapes (2, 3, 1)"
)
test_batch = rejects("BatchMatMulV2", {}, np.zeros((2, 3)), np.zeros((4, 2)), text="3 columns do not fit 4 rows")
