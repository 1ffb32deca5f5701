"""Flatten, Reshape, Permute, RepeatVector."""

from tests.layers.keras.recorded import recorded

globals().update(recorded("shaping"))
