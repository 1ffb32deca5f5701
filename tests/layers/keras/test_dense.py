"""Dense, EinsumDense."""

from tests.layers.harness import ramp, rejects
from tests.layers.keras.recorded import recorded

globals().update(recorded("dense"))

test_rank_refused = rejects(
    "Dense",
    {"units": 3},
    inputs=[ramp(4)],
    text="takes an input of rank 2 or more, got (4,)",
    format="keras",
)
test_equation_refused = rejects(
    "EinsumDense",
    {"equation": "ab,bc->ac", "output_shape": 3},
    inputs=[ramp(1, 2, 4)],
    text="equation 'ab,bc->ac' does not fit an input (1, 2, 4)",
    format="keras",
)
test_sizes_refused = rejects(
    "EinsumDense",
    {"equation": "ab,bcd->ac", "output_shape": 3},
    inputs=[ramp(1, 2)],
    text="no shape tells all sizes of 'bcd'",
    format="keras",
)
test_bias_axes_refused = rejects(
    "EinsumDense",
    {"equation": "ab,bc->ac", "output_shape": 3, "bias_axes": "b"},
    inputs=[ramp(1, 2)],
    text="bias_axes 'b' are none of 'ac'",
    format="keras",
)
