"""InnerProduct."""

import numpy as np

from anylayer import ops
from anylayer.testing import check_function
from tests.layers.harness import Case, case, noise, ramp, reads, rejects

W = np.float32([[1, 0, 0, 0], [1, 10, 100, 1000]])

test_rows = case(
    "InnerProduct", {"num_output": 2}, inputs=[[[1, 2, 3, 4]]], blobs=[W, [0.5, 0]], outputs=[[[1.5, 4321]]]
)
test_flattens = case(
    "InnerProduct", {"num_output": 2, "bias_term": False}, inputs=[ramp(1, 2, 2)], blobs=[W], outputs=[[[0, 3210]]]
)
test_transpose = case(
    "InnerProduct",
    {"num_output": 2, "bias_term": False, "transpose": True},
    inputs=[[[1, 2, 3, 4]]],
    blobs=[np.ascontiguousarray(W.T)],
    outputs=[[[1, 4321]]],
)
test_last_axis = case(
    "InnerProduct",
    {"num_output": 2, "axis": -1, "bias_term": False},
    inputs=[ramp(1, 2, 4)],
    blobs=[W],
    outputs=[[[[0, 3210], [4, 7654]]]],
)
test_axis_0 = case(
    "InnerProduct",
    {"num_output": 2, "axis": 0, "bias_term": False},
    inputs=[ramp(2, 2)],
    blobs=[W],
    outputs=[[0, 3210]],
)
test_legacy_blob = case(
    "InnerProduct",
    {"num_output": 2},
    inputs=[[[1, 2, 3, 4]]],
    blobs=[W.reshape(1, 1, 2, 4), np.float32([[[[0.5, 0]]]])],
    outputs=[[[1.5, 4321]]],
)


def test_weights_are_not_copied() -> None:
    weights = noise(2, 4)
    case_ = Case("InnerProduct", {"num_output": 2, "bias_term": False}, [noise(1, 4)], blobs=[weights])
    seen = []
    original = ops.gemm
    ops.gemm = lambda a, b, c=None, **options: seen.append(b) or original(a, b, c, **options)
    try:
        case_.bind()(case_.inputs)
    finally:
        ops.gemm = original
    assert np.shares_memory(seen[0], weights)


def test_rows_whose_number_only_the_data_tell() -> None:
    case_ = Case("InnerProduct", {"num_output": 2}, [noise(3, 2, 2)], blobs=[noise(2, 4), noise(2)])

    def some(x: np.ndarray, count: np.ndarray) -> list:
        return case_.bind()([ops.head(x, count)])

    check_function(some, case_.inputs[0], np.array(2))


test_rejects_axis_beyond_rank = rejects(
    "InnerProduct",
    {"num_output": 3, "axis": 2},
    inputs=[ramp(2, 3)],
    text="axis must lie in -2..1 for an input of shape (2, 3), got 2",
)
test_rejects_weights_of_other_shape = rejects(
    "InnerProduct",
    {"num_output": 2},
    inputs=[ramp(1, 5)],
    blobs=[W, ramp(2)],
    text="blob 0 (weights) has shape (2, 4) in the weights file, expected (2, 5)",
)
test_rejects_blob_that_no_field_asks_for = rejects(
    "InnerProduct",
    {"num_output": 2, "bias_term": False},
    inputs=[ramp(1, 4)],
    blobs=[W, ramp(2)],
    text="the weights file has 2 blobs, expected 1",
)
test_rejects_num_output_of_0 = rejects(
    "InnerProduct", {"num_output": 0}, inputs=[ramp(1, 4)], text="num_output must be at least 1, got 0"
)
test_read = reads(
    'layer { name: "f" type: "InnerProduct" bottom: "in0" top: "y" '
    "inner_product_param { num_output: 10 transpose: true } }",
    num_output=10,
    transpose=True,
    axis=1,
)
