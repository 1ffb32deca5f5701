"""ConvLSTM1D, ConvLSTM2D, ConvLSTM3D."""

from tests.layers.keras.recorded import recorded

globals().update(recorded("conv_lstm"))
