"""Tests of slices, gathers and related selections."""

import numpy as np
import pytest

from anylayer.errors import EngineError, LayerError
from anylayer.layers._arrays import gather, one_hot
from anylayer.network import TensorType
from anylayer.testing import check_function, run_graph
from anylayer.tracing import trace
from tests.layers.harness import case, ramp
from tests.layers.tensorflow.recorded import as_tensorflow, rejects

test_slicing_matches_tensorflow = as_tensorflow(
    *["Slice", "StridedSlice", "Gather", "GatherV2", "GatherNd", "OneHot", "TopKV2", "ReverseSequence"]
)
test_where_matches_tensorflow = as_tensorflow("Where", engines=["numpy"])
X = np.zeros((2, 3), np.float32)
test_slice_rejects_end_out_of_range = rejects(
    "Slice",
    {},
    X,
    np.int32([0, 1]),
    np.int32([2, 3]),
    text="begin 1 and size 3 do not lie within axis 1 of size 3",
)
test_strided_slice_rejects_too_many_entries = rejects(
    "StridedSlice", {}, X, *[np.int32([1, 1, 1])] * 3, text="array is 2-dimensional, but 3 were indexed"
)
test_strided_slice_rejects_index_out_of_range = rejects(
    "StridedSlice",
    {"shrink_axis_mask": 1},
    X,
    *[np.int32([5])] * 3,
    text="index 5 is out of bounds for axis 0 with size 2",
)
test_strided_slice_rejects_step_zero = rejects(
    "StridedSlice", {}, X, *[np.int32([0])] * 3, text="strides must not be 0"
)
test_gather_rejects_index_out_of_range = rejects(
    "GatherV2", {}, X, np.int32([3]), np.int32(1), text="indices must lie in 0..2, got 3 to 3"
)


@pytest.mark.parametrize("axis", [1, 2, 3])
def test_gather_takes_any_number_of_batches(axis: int) -> None:
    random = np.random.default_rng(0)
    x = random.random((5000, 2, 3, 4), np.float32)
    indices = random.integers(-x.shape[axis], x.shape[axis], (5000, 2))
    y = gather(x, indices, axis, 1)
    assert y.shape == (*x.shape[:axis], 2, *x.shape[axis + 1 :])
    for batch in (0, 1, 4999):
        assert (y[batch] == np.take(x[batch], indices[batch], axis - 1)).all()


def test_index_outside_its_batch_selects_from_no_other_batch() -> None:
    x = ramp(3, 4)
    check_function(lambda i: gather(x, i, 1, 1), np.int64([[0, 3], [-1, 2], [1, 1]]))
    wrong = np.int64([[0, 4], [-1, 2], [1, 1]])
    with pytest.raises(LayerError, match=r"indices must lie in 0\.\.3, got 0 to 4"):
        gather(x, wrong, 1, 1)
    graph = trace(lambda xs: [gather(x, xs[0], 1, 1)], [TensorType.of(wrong.shape, wrong.dtype)])
    with pytest.raises(EngineError, match="idx=12"):
        run_graph(graph, [wrong], "onnxruntime")


test_top_k_rejects_too_large_k = rejects(
    "TopKV2", {}, X, np.int32(4), text="k=4 exceeds the 3 elements of the last axis", tops=2
)
test_top_k_of_the_first_releases = case(
    "TopK",
    {"k": 2},
    inputs=[[[1, 5, 5], [3, 2, 4]]],
    outputs=[[[5, 5], [4, 3]], np.int32([[1, 2], [2, 0]])],
    format="tensorflow",
)
test_resource_gather = case(
    "ResourceGather",
    {"dtype": "float32"},
    inputs=[ramp(3, 2), np.int32([2, 0])],
    outputs=[[[4, 5], [0, 1]]],
    format="tensorflow",
)


def test_one_hot_of_more_classes_than_uint8_holds() -> None:
    on, off = np.ones((), np.float32), np.zeros((), np.float32)
    y = one_hot(np.array([1, 44], np.uint8), 300, -1, on, off)
    assert np.argwhere(y).tolist() == [[0, 1], [1, 44]]
