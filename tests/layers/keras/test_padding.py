"""Tests of zero padding and cropping."""

from tests.layers.harness import ramp, rejects
from tests.layers.keras.recorded import recorded

globals().update(recorded("padding"))

test_rejects_too_few_pairs = rejects(
    "ZeroPadding2D",
    {"padding": [[1, 1]]},
    inputs=[ramp(1, 4, 4, 1)],
    text="parameter 'padding' must be 2 pairs, got [[1, 1]]",
    format="keras",
)
test_rejects_negative_padding = rejects(
    "ZeroPadding2D",
    {"padding": -1},
    inputs=[ramp(1, 4, 4, 1)],
    text="parameter 'padding' must not be negative, got [-1, -1]",
    format="keras",
)
test_rejects_empty_output = rejects(
    "Cropping1D",
    {"cropping": [2, 2]},
    inputs=[ramp(1, 4, 1)],
    text="cropping 2 + 2 leaves nothing of the 4 cells of axis 1",
    format="keras",
)
