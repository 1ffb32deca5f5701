"""Slice."""

from tests.layers.harness import case, ramp, rejects

X = ramp(1, 4, 2)

test_equal_parts = case("Slice", inputs=[X], outputs=[X[:, :2], X[:, 2:]])
test_points = case("Slice", {"slice_point": [1, 3]}, inputs=[X], outputs=[X[:, :1], X[:, 1:3], X[:, 3:]])
test_axis = case("Slice", {"axis": -1, "slice_point": 1}, inputs=[X], outputs=[X[..., :1], X[..., 1:]])
test_older_spelling = case("Slice", {"slice_dim": 2}, inputs=[X], outputs=[X[..., :1], X[..., 1:]])
test_one_output = case("Slice", inputs=[X], outputs=[X])
test_rejects_parts_of_unequal_size_without_slice_point = rejects(
    "Slice", inputs=[X], tops=3, text="3 outputs do not divide the axis of size 4; give slice_point"
)
test_rejects_fewer_slice_points_than_outputs = rejects(
    "Slice", {"slice_point": 1}, inputs=[X], tops=3, text="3 outputs need 2 slice_point, got 1"
)
test_rejects_repeated_slice_point = rejects(
    "Slice",
    {"slice_point": [2, 2]},
    inputs=[X],
    tops=3,
    text="slice_point must increase from 1 to at most 3, got [2, 2]",
)
test_rejects_slice_point_at_the_end = rejects(
    "Slice", {"slice_point": 4}, inputs=[X], tops=2, text="slice_point must increase from 1 to at most 3, got [4]"
)
test_rejects_axis_and_slice_dim_together = rejects(
    "Slice", {"slice_dim": 1, "axis": 1}, inputs=[X], tops=2, text="give axis or slice_dim, not both"
)
test_rejects_axis_beyond_rank = rejects("Slice", {"axis": 3}, inputs=[X], tops=2, text="axis must lie in -3..2")
