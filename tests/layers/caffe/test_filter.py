"""Filter."""

from tests.layers.harness import case, ramp, rejects

X = ramp(4, 2)

test_kept = case("Filter", inputs=[X, [1, 0, 0, 1]], outputs=[[[0, 1], [6, 7]]])
test_several = case("Filter", inputs=[X, 10 * X, [0, -1, 0, 0]], outputs=[[[2, 3]], [[20, 30]]])
test_none_kept = case("Filter", inputs=[X, [0, 0, 0, 0]], outputs=[ramp(0, 2)])
test_rejects_selector_shorter_than_batch = rejects(
    "Filter", inputs=[X, ramp(3)], text="input 0 has 4 samples, but the selector has 3"
)
test_rejects_selector_with_two_values_per_sample = rejects(
    "Filter", inputs=[X, ramp(4, 2)], text="the selector must have one value per sample (N,), got shape (4, 2)"
)
test_rejects_fewer_outputs_than_filtered_inputs = rejects(
    "Filter", inputs=[X, X, ramp(4)], text="2 inputs to filter need 2 outputs, got 1"
)
test_rejects_selector_without_inputs = rejects(
    "Filter", inputs=[X], text="takes 2 inputs or more, the last one the selector, got 1"
)
