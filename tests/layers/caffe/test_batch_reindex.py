"""BatchReindex."""

from tests.layers.harness import case, ramp, rejects

test_picks = case("BatchReindex", inputs=[ramp(3, 2), [2, 0, 0, 1]], outputs=[[[4, 5], [0, 1], [0, 1], [2, 3]]])
test_drops = case("BatchReindex", inputs=[ramp(3, 2, 2), [1]], outputs=[[[[4, 5], [6, 7]]]])
test_rejects_indices_that_are_not_a_list = rejects(
    "BatchReindex",
    inputs=[ramp(3, 2), ramp(1, 2)],
    text="the second input must be of shape (K,), a list of indices, got (1, 2)",
)
