"""UpsampleDarknet."""

from tests.layers.harness import case, ramp, rejects

X = ramp(1, 2, 2, 3)
test_stride = case("UpsampleDarknet", {"stride": 2}, inputs=[X], outputs=[X.repeat(2, 2).repeat(2, 3)])
test_default_is_identity = case("UpsampleDarknet", inputs=[X], outputs=[X])
test_stride_is_positive = rejects(
    "UpsampleDarknet", {"stride": 0}, inputs=[X], text="stride must be at least 1, got 0"
)
test_rejects_input_without_4_axes = rejects(
    "UpsampleDarknet", {"stride": 2}, inputs=[[1]], text="input 0 must be of shape (N, C, H, W), got (1,)"
)
