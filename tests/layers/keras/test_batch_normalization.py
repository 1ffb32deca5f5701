"""Tests of batch normalization."""

from tests.layers.harness import ramp, refuses
from tests.layers.keras.recorded import recorded

globals().update(recorded("batch_normalization"))

test_refusals = refuses(
    "BatchNormalization",
    {
        "several_axes": ({"axis": [1, 2]}, "axis must be one integer, got [1, 2]"),
        "batch_axis": ({"axis": 0}, "axis=0 is the batch axis of an input of rank 3"),
        "axis_out_of_range": ({"axis": 3}, "axis must lie in -3..2 for 3 axes, got 3"),
    },
    format="keras",
    inputs=[ramp(1, 4, 4)],
)
