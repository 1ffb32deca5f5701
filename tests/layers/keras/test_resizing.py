"""Resizing, CenterCrop, UpSampling."""

from tests.layers.keras.recorded import recorded

globals().update(recorded("resizing"))
