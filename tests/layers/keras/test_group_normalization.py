"""GroupNormalization."""

from tests.layers.harness import ramp, rejects
from tests.layers.keras.recorded import recorded

globals().update(recorded("group_normalization"))

test_groups_refused = rejects(
    "GroupNormalization",
    {"groups": 3},
    inputs=[ramp(1, 4, 4)],
    text="groups=3 does not divide 4 channels",
    format="keras",
)
