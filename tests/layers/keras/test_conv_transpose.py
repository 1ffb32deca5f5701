"""Tests of the transposed convolutions."""

from tests.layers.harness import ramp, rejects
from tests.layers.keras.recorded import recorded

globals().update(recorded("conv_transpose"))

test_rejects_empty_output = rejects(
    "Conv2DTranspose",
    {"filters": 1, "kernel_size": 2, "padding": "same", "output_padding": 0},
    inputs=[ramp(1, 1, 2, 1)],
    text="the output would have 0 cells along spatial axis 0, where the input has 1",
    format="keras",
)
