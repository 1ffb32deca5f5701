"""Tests of Flatten, Reshape, Permute and RepeatVector."""

from tests.layers.harness import ramp, rejects
from tests.layers.keras.recorded import recorded

globals().update(recorded("shaping"))

test_reshape_rejects_indivisible_size = rejects(
    "Reshape",
    {"target_shape": [3, -1]},
    inputs=[ramp(1, 4)],
    text="target_shape [3, -1] does not fit an array of shape (4,)",
    format="keras",
)
test_reshape_rejects_two_unknown_sizes = rejects(
    "Reshape",
    {"target_shape": [-1, -1]},
    inputs=[ramp(1, 4)],
    text="target_shape must consist of sizes of which one may be -1, got [-1, -1]",
    format="keras",
)
test_permute_rejects_other_axes = rejects(
    "Permute",
    {"dims": [2, 0]},
    inputs=[ramp(1, 4, 2)],
    text="dims must be a permutation of the axes 1 to 2, got [2, 0]",
    format="keras",
)
test_repeat_vector_rejects_sequence = rejects(
    "RepeatVector",
    {"n": 2},
    inputs=[ramp(1, 4, 2)],
    text="takes an input (N, C) and n > 0, got (1, 4, 2) and n=2",
    format="keras",
)
