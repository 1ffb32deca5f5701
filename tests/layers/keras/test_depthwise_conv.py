"""Tests of the depthwise and separable convolutions."""

from tests.layers.harness import ramp, rejects
from tests.layers.keras.recorded import recorded

globals().update(recorded("depthwise_conv"))

test_rejects_depth_multiplier_zero = rejects(
    "DepthwiseConv2D",
    {"kernel_size": 3, "depth_multiplier": 0},
    inputs=[ramp(1, 4, 4, 1)],
    text="depth_multiplier must be at least 1, got 0",
    format="keras",
)
test_separable_rejects_missing_filters = rejects(
    "SeparableConv2D",
    {"kernel_size": 3},
    inputs=[ramp(1, 4, 4, 1)],
    text="parameter 'filters' must be an integer, got None",
    format="keras",
)
