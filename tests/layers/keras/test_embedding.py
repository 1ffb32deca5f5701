"""Tests of Embedding and Masking."""

from tests.layers.keras.recorded import recorded

globals().update(recorded("embedding"))
