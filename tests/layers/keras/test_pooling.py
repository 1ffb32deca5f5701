"""Tests of pooling."""

from tests.layers.harness import ramp, rejects
from tests.layers.keras.recorded import recorded

globals().update(recorded("pooling"))

test_rejects_pool_size_of_other_rank = rejects(
    "MaxPooling2D",
    {"pool_size": [2]},
    inputs=[ramp(1, 4, 4, 1)],
    text="parameter 'pool_size' must be 2 integers, got [2]",
    format="keras",
)
