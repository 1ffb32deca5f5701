"""ArgMax."""

from tests.layers.harness import case, ramp, rejects

ROWS = [[3, 9, 9, 1], [4, 4, 4, 4]]

test_ties_go_to_the_larger_index = case("ArgMax", inputs=[ROWS], outputs=[[[[2]], [[3]]]])
test_top_2 = case("ArgMax", {"top_k": 2}, inputs=[ROWS], outputs=[[[[2, 1]], [[3, 2]]]])
test_with_values = case(
    "ArgMax", {"top_k": 2, "out_max_val": True}, inputs=[ROWS], outputs=[[[[2, 1], [9, 9]], [[3, 2], [4, 4]]]]
)
test_axis = case("ArgMax", {"axis": 0}, inputs=[ROWS], outputs=[[[1, 0, 0, 1]]])
test_negative_axis_top_3 = case(
    "ArgMax", {"axis": -1, "top_k": 3}, inputs=[ROWS], outputs=[[[2, 1, 0], [3, 2, 1]]]
)
test_values_along_an_axis = case(
    "ArgMax", {"axis": 1, "out_max_val": True, "top_k": 2}, inputs=[ROWS], outputs=[[[9, 9], [4, 4]]]
)
test_four_axes_stay_four = case("ArgMax", inputs=[ramp(2, 2, 2, 2)], outputs=[[[[[7]]], [[[7]]]]])
test_rejects_top_k_above_number_of_values = rejects(
    "ArgMax", {"top_k": 5}, inputs=[ramp(2, 4)], text="top_k must lie in 1..4"
)
test_rejects_top_k_of_0 = rejects("ArgMax", {"top_k": 0}, inputs=[ramp(2, 4)], text="top_k must lie in 1..4")
test_rejects_axis_beyond_rank = rejects(
    "ArgMax", {"axis": 2}, inputs=[ramp(2, 4)], text="axis must lie in -2..1 for an input of shape (2, 4), got 2"
)
