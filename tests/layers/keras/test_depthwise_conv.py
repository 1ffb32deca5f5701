"""Depthwise and separable convolutions."""

from tests.layers.keras.recorded import recorded

globals().update(recorded("depthwise_conv"))
