"""Tests of LayerNormalization and RMSNormalization."""

from tests.layers.keras.recorded import recorded

globals().update(recorded("layer_normalization"))
