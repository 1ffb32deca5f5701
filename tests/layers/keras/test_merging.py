"""Layers that join their inputs."""

from tests.layers.harness import ramp, rejects
from tests.layers.keras.recorded import recorded

globals().update(recorded("merging"))

test_shapes_refused = rejects(
    "Add",
    {},
    inputs=[ramp(1, 4), ramp(1, 3)],
    text="inputs (1, 4) and (1, 3) do not fit",
    format="keras",
)
test_concatenate_refused = rejects(
    "Concatenate",
    {"axis": 1},
    inputs=[ramp(1, 4, 2), ramp(1, 3, 3)],
    text="inputs (1, 4, 2) and (1, 3, 3) do not fit along axis 1",
    format="keras",
)
test_dot_refused = rejects(
    "Dot",
    {"axes": 1},
    inputs=[ramp(1, 4), ramp(1, 3)],
    text="axes 1 of (1, 4) and 1 of (1, 3) differ in size",
    format="keras",
)
test_dot_axes_refused = rejects(
    "Dot",
    {"axes": [1, 1, 1]},
    inputs=[ramp(1, 4), ramp(1, 4)],
    text="axes must be one or two axes, got [1, 1, 1]",
    format="keras",
)
test_dot_batch_refused = rejects(
    "Dot",
    {"axes": 0},
    inputs=[ramp(1, 4), ramp(1, 4)],
    text="axes 0 is the batch",
    format="keras",
)
test_subtract_refused = rejects(
    "Subtract",
    {},
    inputs=[ramp(1, 4)],
    text="takes 2 inputs, got 1",
    format="keras",
)
