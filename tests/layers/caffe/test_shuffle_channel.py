"""ShuffleChannel."""

from tests.layers.harness import case, ramp, rejects

test_two_groups = case("ShuffleChannel", {"group": 2}, inputs=[ramp(1, 4)], outputs=[[[0, 2, 1, 3]]])
test_three_groups = case("ShuffleChannel", {"group": 3}, inputs=[ramp(1, 6)], outputs=[[[0, 2, 4, 1, 3, 5]]])
test_default_is_identity = case("ShuffleChannel", inputs=[ramp(1, 4, 2)], outputs=[ramp(1, 4, 2)])
test_group_divides = rejects(
    "ShuffleChannel", {"group": 4}, inputs=[ramp(1, 6)], text="group=4 does not divide 6 channels"
)
test_group_is_positive = rejects(
    "ShuffleChannel", {"group": 0}, inputs=[ramp(1, 6)], text="group=0 does not divide 6 channels"
)
