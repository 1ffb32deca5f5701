"""Conv1DTranspose, Conv2DTranspose, Conv3DTranspose."""

from tests.layers.harness import ramp, rejects
from tests.layers.keras.recorded import recorded

globals().update(recorded("conv_transpose"))

test_nothing_left_refused = rejects(
    "Conv2DTranspose",
    {"filters": 1, "kernel_size": 2, "padding": "same", "output_padding": 0},
    inputs=[ramp(1, 1, 2, 1)],
    text="leaves 0 cells of axis 0, whose input has 1",
    format="keras",
)
