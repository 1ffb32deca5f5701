"""Crop."""

from tests.layers.harness import case, ramp, rejects

X = ramp(1, 1, 4, 5)

test_corner = case(
    "Crop",
    inputs=[X, ramp(1, 1, 2, 2)],
    outputs=[[[[[0, 1], [5, 6]]]]],
    notes=["give dialect='hed', or write crop_param { offset: ... }"],
)
test_offset = case("Crop", {"offset": 1}, inputs=[X, ramp(1, 1, 2, 2)], outputs=[[[[[6, 7], [11, 12]]]]])
test_offset_each = case(
    "Crop", {"offset": [2, 0]}, inputs=[X, ramp(1, 1, 2, 2)], outputs=[[[[[10, 11], [15, 16]]]]]
)
test_axes_before_axis_stay = case(
    "Crop", {"axis": -1, "offset": 3}, inputs=[X, ramp(9, 9, 9, 2)], outputs=[X[..., 3:]]
)
test_rejects_offset_and_size_past_the_end = rejects(
    "Crop",
    {"offset": 3},
    inputs=[X, ramp(1, 1, 2, 2)],
    text="offset 3 and size 2 reach past the 4 cells of axis 2",
)
test_rejects_inputs_of_different_rank = rejects(
    "Crop", {"offset": 0}, inputs=[X, ramp(2, 2)], text="both inputs must have the same number of axes"
)
test_rejects_more_offsets_than_axes = rejects(
    "Crop",
    {"offset": [1, 1, 1]},
    inputs=[X, ramp(1, 1, 2, 2)],
    text="offset must be given once, or once for each of the 2 axes from axis 2 on, got 3 offsets",
)
test_rejects_work_in_place = rejects("Crop", inputs=[X, X], in_place=True, text="cannot work in place")
