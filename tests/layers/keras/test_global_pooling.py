"""Tests of global pooling."""

from tests.layers.harness import ramp, rejects
from tests.layers.keras.recorded import recorded

globals().update(recorded("global_pooling"))

test_rejects_input_of_other_rank = rejects(
    "GlobalMaxPooling2D",
    {},
    inputs=[ramp(1, 4, 4)],
    text="takes an input of rank 4 (batch, 2 axes, channels), got (1, 4, 4)",
    format="keras",
)
