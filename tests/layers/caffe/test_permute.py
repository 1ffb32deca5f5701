"""Permute."""

from tests.layers.harness import case, ramp, rejects

X = ramp(2, 3, 4, 5)
test_all = case("Permute", {"order": [0, 2, 3, 1]}, inputs=[X], outputs=[X.transpose(0, 2, 3, 1).copy()])
test_rest_follows = case("Permute", {"order": [1, 0]}, inputs=[X], outputs=[X.transpose(1, 0, 2, 3).copy()])
test_one = case("Permute", {"order": 2}, inputs=[X], outputs=[X.transpose(2, 0, 1, 3).copy()])
test_default_is_identity = case("Permute", inputs=[X], outputs=[X])
test_rank_3 = case("Permute", {"order": [2, 0, 1]}, inputs=[X[0]], outputs=[X[0].transpose(2, 0, 1).copy()])
test_rejects_order_beyond_rank = rejects(
    "Permute", {"order": [0, 4]}, inputs=[X], text="order must list axes below 4 for shape (2, 3, 4, 5), got 4"
)
test_rejects_order_that_repeats_an_axis = rejects(
    "Permute", {"order": [0, 1, 0]}, inputs=[X], text="order names an axis twice: 0, 1, 0"
)
