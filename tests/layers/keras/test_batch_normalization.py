"""Tests of batch normalization."""

from tests.layers.harness import ramp, rejects
from tests.layers.keras.recorded import recorded

globals().update(recorded("batch_normalization"))

test_rejects_several_axes = rejects(
    "BatchNormalization",
    {"axis": [1, 2]},
    inputs=[ramp(1, 4, 4)],
    text="axis must be one integer, got [1, 2]",
    format="keras",
)
test_rejects_batch_axis = rejects(
    "BatchNormalization",
    {"axis": 0},
    inputs=[ramp(1, 4, 4)],
    text="axis=0 is the batch axis of an input of rank 3",
    format="keras",
)
test_rejects_axis_out_of_range = rejects(
    "BatchNormalization",
    {"axis": 3},
    inputs=[ramp(1, 4, 4)],
    text="axis must lie in -3..2 for 3 axes, got 3",
    format="keras",
)
