"""Log."""

from tests.layers.harness import case, ramp, rejects

test_e = case("Log", inputs=[[1, 2.7182817]], outputs=[[0, 1]])
test_base = case("Log", {"base": 10.0, "scale": 10.0, "shift": 100.0}, inputs=[[0, 90]], outputs=[[2, 3]])
test_opencv_ignores_parameters = case(
    "Log", {"base": 10.0, "scale": 3.0}, dialect="opencv", inputs=[[1, 2.7182817]], outputs=[[0, 1]]
)
test_rejects_negative_base = rejects(
    "Log", {"base": -2.0}, inputs=[ramp(2)], text="base must be positive and not 1, or -1 for e, got -2.0"
)
test_rejects_base_of_1 = rejects(
    "Log", {"base": 1.0}, inputs=[ramp(2)], text="base must be positive and not 1, or -1 for e, got 1.0"
)
