"""SpatialDropout."""

from tests.layers.harness import case, ramp, rejects

X = ramp(2, 3, 1, 2)
test_identity = case("SpatialDropout", {"dropout_ratio": 0.9}, inputs=[X], outputs=[X])
test_rejects_random_masks_in_phase_test = rejects(
    "SpatialDropout", {"sample_weights_test": 1}, inputs=[X], text="sample_weights_test: true draws random masks"
)
