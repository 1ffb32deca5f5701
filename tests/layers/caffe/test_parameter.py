"""Parameter."""

from tests.layers.harness import case, ramp, rejects

test_weight = case("Parameter", {"shape": {"dim": [2, 2]}}, blobs=[ramp(2, 2)], outputs=[ramp(2, 2)])
test_zeros_without_a_file = case("Parameter", {"shape": {"dim": 2}}, outputs=[[0, 0]])
test_rejects_negative_dimension = rejects(
    "Parameter", {"shape": {"dim": -2}}, text="dimensions must be 0 or more, got (-2,)"
)
