"""Tests of Normalization, Rescaling and LayerScale."""

from tests.layers.harness import case, ramp, rejects
from tests.layers.keras.recorded import recorded

globals().update(recorded("normalization"))

test_rejects_mean_without_variance = rejects(
    "Normalization",
    {"mean": 1.0},
    inputs=[ramp(1, 2)],
    text="parameter 'mean' needs parameter 'variance', which is missing",
    format="keras",
)

test_layer_scale_multiplies_each_channel = case(
    "LayerScale",
    {"init_values": 1e-6, "projection_dim": 3},
    inputs=[ramp(1, 2, 2, 3)],
    blobs=[[0.5, -1.0, 2.0]],
    outputs=[ramp(1, 2, 2, 3) * [0.5, -1.0, 2.0]],
    format="keras",
)
