"""Exp."""

from tests.layers.harness import case, ramp, rejects

test_e = case("Exp", inputs=[[0, 1, -1]], outputs=[[1, 2.7182818, 0.36787944]])
test_base = case("Exp", {"base": 2.0, "scale": 0.5, "shift": 1.0}, inputs=[[0, 2, 4]], outputs=[[2, 4, 8]])
test_rejects_negative_base = rejects(
    "Exp", {"base": -2.0}, inputs=[ramp(2)], text="base must be positive, or -1 for e, got -2.0"
)
