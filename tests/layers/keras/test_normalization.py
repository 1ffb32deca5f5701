"""Normalization, Rescaling."""

from tests.layers.harness import ramp, rejects
from tests.layers.keras.recorded import recorded

globals().update(recorded("normalization"))

test_variance_refused = rejects(
    "Normalization",
    {"mean": 1.0},
    inputs=[ramp(1, 2)],
    text="parameter 'variance' is missing beside 'mean'",
    format="keras",
)
