"""Conv1D, Conv2D, Conv3D."""

from tests.layers.keras.recorded import recorded

globals().update(recorded("conv"))
