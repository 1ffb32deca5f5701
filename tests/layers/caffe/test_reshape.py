"""Reshape."""

from tests.layers.harness import case, ramp, reads, rejects

X = ramp(2, 3, 4)


def _case(shape: list[int], result: tuple[int, ...], **params: int):
    return case("Reshape", {"shape": {"dim": shape}, **params}, inputs=[X], outputs=[X.reshape(result)])


def _rejects(text: str, shape: list[int], in_place: bool = False, **params: int):
    return rejects("Reshape", {"shape": {"dim": shape}, **params}, inputs=[X], in_place=in_place, text=text)


test_all = _case([4, 6], (4, 6))
test_copied_and_inferred = _case([0, -1], (2, 12))
test_from_an_axis = _case([2, -1], (2, 2, 6), axis=1)
test_one_axis = _case([3, 1], (2, 3, 1, 4), axis=1, num_axes=1)
test_put_in = _case([1], (2, 1, 3, 4), axis=1, num_axes=0)
test_behind_the_last = _case([1, 1], (2, 3, 4, 1, 1), axis=-1)
test_last_axis = _case([2, 2], (2, 3, 2, 2), axis=-2)
test_zero_counts_from_the_axis = _case([0, 4, 1], (2, 3, 4, 1), axis=1)
test_scalar = case("Reshape", {"shape": {}}, inputs=[ramp(1, 1)], outputs=[ramp(1).reshape(())])
test_does_not_divide = _rejects("shape [5, -1] does not fit an array of shape (2, 3, 4)", [5, -1])
test_rejects_shape_with_other_number_of_elements = _rejects(
    "shape [2, 5] does not fit an array of shape (2, 3, 4)", [2, 5]
)
test_rejects_two_inferred_sizes = _rejects("shape may have one -1, got [-1, -1]", [-1, -1])
test_rejects_negative_size = _rejects("sizes must be positive, 0 or -1, got [-2]", [-2])
test_rejects_copied_size_beyond_rank = _rejects(
    "shape [2, 3, 4, 0] copies the size of axis 3 of (2, 3, 4)", [2, 3, 4, 0]
)
test_rejects_axis_beyond_rank = _rejects(
    "axis must lie in -4..3 for an input of shape (2, 3, 4), got 4", [1], axis=4
)
test_rejects_num_axes_beyond_rank = _rejects(
    "axis=1 and num_axes=3 reach past the input's shape (2, 3, 4)", [1], axis=1, num_axes=3
)
test_rejects_work_in_place = _rejects("cannot work in place", [-1], in_place=True)
test_read = reads(
    'layer { name: "r" type: "Reshape" bottom: "in0" top: "y" reshape_param { shape { dim: 0 dim: -1 } } }',
    axis=0,
    num_axes=-1,
)
