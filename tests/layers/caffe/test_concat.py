"""Concat."""

from tests.layers.harness import case, ramp, rejects

A, B = ramp(1, 2, 2), ramp(1, 1, 2, start=10)

test_axis_1 = case("Concat", inputs=[A, B], outputs=[[[[0, 1], [2, 3], [10, 11]]]])
test_negative_axis = case("Concat", {"axis": -1}, inputs=[A, A], outputs=[[[[0, 1, 0, 1], [2, 3, 2, 3]]]])
test_older_spelling = case("Concat", {"concat_dim": 2}, inputs=[A, A], outputs=[[[[0, 1, 0, 1], [2, 3, 2, 3]]]])
test_one_input = case("Concat", inputs=[A], outputs=[A])
test_rejects_different_sizes_beside_axis = rejects(
    "Concat",
    inputs=[ramp(1, 4, 3), ramp(1, 4, 4)],
    text="the same shape except along axis 1: input 0 is (1, 4, 3), input 1 is (1, 4, 4)",
)
test_rejects_inputs_of_different_rank = rejects(
    "Concat", inputs=[ramp(1, 4), ramp(1, 4, 1)], text="input 0 is (1, 4), input 1 is (1, 4, 1)"
)
test_rejects_axis_and_concat_dim_together = rejects(
    "Concat", {"axis": 1, "concat_dim": 1}, inputs=[A, B], text="give axis or concat_dim, not both"
)
test_rejects_axis_beyond_rank = rejects(
    "Concat", {"concat_dim": 3}, inputs=[A, B], text="concat_dim must lie in -3..2"
)
test_rejects_no_inputs = rejects("Concat", inputs=[], text="takes 1 input or more, got none")
