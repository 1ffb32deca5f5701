"""PReLU."""

from tests.layers.harness import case, ramp, rejects

X = [[[-1, 2], [-3, 4]]]

test_a_slope_a_channel = case("PReLU", inputs=[X], blobs=[[0.5, 10]], outputs=[[[[-0.5, 2], [-30, 4]]]])
test_one_slope = case(
    "PReLU", {"channel_shared": True}, inputs=[X], blobs=[[0.5]], outputs=[[[[-0.5, 2], [-1.5, 4]]]]
)
test_default_slope = case("PReLU", inputs=[X], outputs=[[[[-0.25, 2], [-0.75, 4]]]])
test_filler = case("PReLU", {"filler": {"value": 2.0}}, inputs=[X], outputs=[[[[-2, 2], [-6, 4]]]])
test_two_axes = case("PReLU", inputs=[[[-1, -1]]], blobs=[[0.5, 10]], outputs=[[[-0.5, -10]]])
test_rejects_input_without_channels = rejects(
    "PReLU", inputs=[ramp(3)], text="needs an input of 2 axes or more (N, C, ...), got shape (3,)"
)
test_rejects_slope_for_other_number_of_channels = rejects(
    "PReLU", inputs=[ramp(1, 3)], blobs=[[1, 2]], text="blob 0 (slope) has shape (2,)"
)
