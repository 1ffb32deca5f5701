"""PixelShuffle."""

from tests.layers.harness import case, noise, ramp, rejects

X = noise(2, 8, 2, 3)
test_one_channel = case(
    "PixelShuffle", {"upscale_factor": 2}, inputs=[ramp(1, 4, 1, 1)], outputs=[[[[[0, 1], [2, 3]]]]]
)
test_two_channels = case(
    "PixelShuffle",
    {"upscale_factor": 2},
    inputs=[X],
    outputs=[X.reshape(2, 2, 2, 2, 2, 3).transpose(0, 1, 4, 2, 5, 3).reshape(2, 2, 4, 6)],
)
test_factor_is_required = rejects("PixelShuffle", inputs=[X], text="parameter 'upscale_factor' is missing")
test_factor_is_2 = rejects(
    "PixelShuffle", {"upscale_factor": 1}, inputs=[X], text="upscale_factor must be at least 2, got 1"
)
test_rejects_channels_that_factor_squared_does_not_divide = rejects(
    "PixelShuffle", {"upscale_factor": 3}, inputs=[X], text="upscale_factor=3 squared does not divide 8 channels"
)
