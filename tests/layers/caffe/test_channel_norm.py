"""ChannelNorm: the length of each pixel's channels."""

from tests.layers.harness import case, noise, rejects

X = noise(2, 5, 3, 4)
test_noise = case("ChannelNorm", inputs=[X], outputs=[(X.astype("f8") ** 2).sum(1, keepdims=True) ** 0.5])
test_by_hand = case("ChannelNorm", inputs=[[[[[3, 0]], [[-4, 0]]]]], outputs=[[[[[5, 0]]]]])
test_rejects_input_without_4_axes = rejects(
    "ChannelNorm", inputs=[[[1, 2]]], text="input 0 must be of shape (N, C, H, W), got (1, 2)"
)
