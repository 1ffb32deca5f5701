"""Dropout."""

from tests.layers.harness import case, ramp, rejects

X = ramp(2, 3)

test_identity = case("Dropout", {"dropout_ratio": 0.9}, inputs=[X], outputs=[X])
test_scaled_when_running = case(
    "Dropout", {"dropout_ratio": 0.75, "scale_train": False}, inputs=[X], outputs=[X / 4]
)
test_segnet = case("Dropout", dialect="segnet", inputs=[X], outputs=[X])
test_rejects_random_masks_in_phase_test = rejects(
    "Dropout", {"sample_weights_test": True}, inputs=[X], text="sample_weights_test: true draws random masks"
)
test_rejects_unknown_field = rejects(
    "Dropout", {"rate": 0.5}, inputs=[X], text="dropout_param has no field 'rate'"
)
