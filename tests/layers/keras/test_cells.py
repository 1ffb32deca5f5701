"""RNN, made of cells."""

from tests.layers.keras.recorded import recorded

globals().update(recorded("cells"))
