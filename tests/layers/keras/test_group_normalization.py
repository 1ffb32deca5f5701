"""Tests of group normalization."""

from tests.layers.harness import ramp, rejects
from tests.layers.keras.recorded import recorded

globals().update(recorded("group_normalization"))

test_rejects_indivisible_groups = rejects(
    "GroupNormalization",
    {"groups": 3},
    inputs=[ramp(1, 4, 4)],
    text="groups=3 does not divide 4 channels",
    format="keras",
)
