"""GroupNormalization."""

from tests.layers.keras.recorded import recorded

globals().update(recorded("group_normalization"))
