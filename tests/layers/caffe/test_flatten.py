"""Flatten."""

from tests.layers.harness import case, ramp, rejects

X = ramp(2, 3, 4, 5)

test_all_but_the_first = case("Flatten", inputs=[X], outputs=[X.reshape(2, 60)])
test_some = case("Flatten", {"axis": 1, "end_axis": 2}, inputs=[X], outputs=[X.reshape(2, 12, 5)])
test_negative = case("Flatten", {"axis": -3, "end_axis": -2}, inputs=[X], outputs=[X.reshape(2, 12, 5)])
test_one_axis = case("Flatten", {"axis": 3}, inputs=[X], outputs=[X])
test_rejects_axis_after_end_axis = rejects(
    "Flatten",
    {"axis": 2, "end_axis": 1},
    inputs=[X],
    text="axis must not lie after end_axis, got axis 2 and end_axis 1",
)
test_rejects_end_axis_beyond_rank = rejects(
    "Flatten", {"end_axis": 4}, inputs=[X], text="end_axis must lie in -4..3"
)
test_rejects_work_in_place = rejects("Flatten", inputs=[X], in_place=True, text="cannot work in place")
