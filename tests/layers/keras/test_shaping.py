"""Flatten, Reshape, Permute, RepeatVector."""

from tests.layers.harness import ramp, rejects
from tests.layers.keras.recorded import recorded

globals().update(recorded("shaping"))

test_reshape_refused = rejects(
    "Reshape",
    {"target_shape": [3, -1]},
    inputs=[ramp(1, 4)],
    text="target_shape [3, -1] does not hold the 4 values of (1, 4)",
    format="keras",
)
test_two_open_refused = rejects(
    "Reshape",
    {"target_shape": [-1, -1]},
    inputs=[ramp(1, 4)],
    text="parameter 'target_shape' must be sizes with at most one -1, got [-1, -1]",
    format="keras",
)
test_dims_refused = rejects(
    "Permute",
    {"dims": [2, 0]},
    inputs=[ramp(1, 4, 2)],
    text="dims must be the axes 1 to 2 in some order, got [2, 0]",
    format="keras",
)
test_rows_refused = rejects(
    "RepeatVector",
    {"n": 2},
    inputs=[ramp(1, 4, 2)],
    text="takes (batch, values) and n > 0, got (1, 4, 2), n=2",
    format="keras",
)
