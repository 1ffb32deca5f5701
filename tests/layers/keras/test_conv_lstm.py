"""Tests of the ConvLSTM layers."""

from tests.layers.harness import ramp, rejects
from tests.layers.keras.recorded import recorded

globals().update(recorded("conv_lstm"))

test_rejects_input_of_other_rank = rejects(
    "ConvLSTM2D",
    {"filters": 2, "kernel_size": 3},
    inputs=[ramp(1, 4, 4, 3)],
    text="takes a sequence of rank 5, got (1, 4, 4, 3)",
    format="keras",
)
