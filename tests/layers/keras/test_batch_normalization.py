"""BatchNormalization."""

from tests.layers.harness import ramp, rejects
from tests.layers.keras.recorded import recorded

globals().update(recorded("batch_normalization"))

test_axes_refused = rejects(
    "BatchNormalization",
    {"axis": [1, 2]},
    inputs=[ramp(1, 4, 4)],
    text="axis must be one axis, got [1, 2]",
    format="keras",
)
test_batch_refused = rejects(
    "BatchNormalization",
    {"axis": 0},
    inputs=[ramp(1, 4, 4)],
    text="axis=0 of an input of rank 3 is the batch",
    format="keras",
)
test_no_axis_refused = rejects(
    "BatchNormalization",
    {"axis": 3},
    inputs=[ramp(1, 4, 4)],
    text="axis=3 is no axis of an input of rank 3",
    format="keras",
)
