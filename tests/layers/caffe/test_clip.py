"""Clip."""

from tests.layers.harness import case, ramp, reads, rejects

test_limits = case("Clip", {"min": -1, "max": 2}, inputs=[[-3, -1, 0.5, 2, 9]], outputs=[[-1, -1, 0.5, 2, 2]])
test_min_above_max = case("Clip", {"min": 0.5, "max": -0.5}, inputs=[[-3, 0, 0.2, 9]], outputs=[[0.5] * 4])
test_max_is_required = rejects("Clip", {"min": 0}, inputs=[ramp(2)], text="parameter 'max' is missing")
test_read = reads(
    'layer { name: "c" type: "Clip" bottom: "in0" top: "y" clip_param { min: 0 max: 6 } }', min=0.0, max=6.0
)
