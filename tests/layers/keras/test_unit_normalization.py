"""Tests of unit normalization."""

from tests.layers.keras.recorded import recorded

globals().update(recorded("unit_normalization"))
