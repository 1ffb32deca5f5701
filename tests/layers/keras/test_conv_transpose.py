"""Conv1DTranspose, Conv2DTranspose, Conv3DTranspose."""

from tests.layers.keras.recorded import recorded

globals().update(recorded("conv_transpose"))
