"""Tests of the layers that merge their inputs."""

from tests.layers.harness import ramp, rejects
from tests.layers.keras.recorded import recorded

globals().update(recorded("merging"))

test_add_rejects_shapes_that_do_not_broadcast = rejects(
    "Add",
    {},
    inputs=[ramp(1, 4), ramp(1, 3)],
    text="inputs of shapes (1, 4) and (1, 3) do not broadcast",
    format="keras",
)
test_concatenate_rejects_different_sizes = rejects(
    "Concatenate",
    {"axis": 1},
    inputs=[ramp(1, 4, 2), ramp(1, 3, 3)],
    text="inputs (1, 4, 2) and (1, 3, 3) must be equal except along axis 1",
    format="keras",
)
test_dot_rejects_different_sizes = rejects(
    "Dot",
    {"axes": 1},
    inputs=[ramp(1, 4), ramp(1, 3)],
    text="axis 1 of (1, 4) and axis 1 of (1, 3) differ in size",
    format="keras",
)
test_dot_rejects_three_axes = rejects(
    "Dot",
    {"axes": [1, 1, 1]},
    inputs=[ramp(1, 4), ramp(1, 4)],
    text="axes must be one or two axes, got [1, 1, 1]",
    format="keras",
)
test_dot_rejects_batch_axis = rejects(
    "Dot",
    {"axes": 0},
    inputs=[ramp(1, 4), ramp(1, 4)],
    text="axes must not contain the batch axis 0, got 0",
    format="keras",
)
test_subtract_rejects_single_input = rejects(
    "Subtract",
    {},
    inputs=[ramp(1, 4)],
    text="takes 2 inputs, got 1",
    format="keras",
)
