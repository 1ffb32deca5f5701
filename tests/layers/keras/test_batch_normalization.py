"""BatchNormalization."""

from tests.layers.keras.recorded import recorded

globals().update(recorded("batch_normalization"))
