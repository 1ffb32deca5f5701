"""ZeroPadding, Cropping."""

from tests.layers.harness import ramp, rejects
from tests.layers.keras.recorded import recorded

globals().update(recorded("padding"))

test_pairs_refused = rejects(
    "ZeroPadding2D",
    {"padding": [[1, 1]]},
    inputs=[ramp(1, 4, 4, 1)],
    text="parameter 'padding' must be 2 pairs, got [[1, 1]]",
    format="keras",
)
test_negative_refused = rejects(
    "ZeroPadding2D",
    {"padding": -1},
    inputs=[ramp(1, 4, 4, 1)],
    text="parameter 'padding' must not be negative, got [-1, -1]",
    format="keras",
)
test_nothing_left_refused = rejects(
    "Cropping1D",
    {"cropping": [2, 2]},
    inputs=[ramp(1, 4, 1)],
    text="cropping 2 + 2 leaves nothing of the 4 cells of axis 1",
    format="keras",
)
