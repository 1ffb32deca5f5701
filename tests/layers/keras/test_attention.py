"""Attention."""

from tests.layers.keras.recorded import recorded

globals().update(recorded("attention"))
