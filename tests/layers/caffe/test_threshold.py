"""Threshold."""

from tests.layers.harness import case

test_0_is_not_above_0 = case("Threshold", inputs=[[-1, 0, 0.1]], outputs=[[0, 0, 1]])
test_threshold = case("Threshold", {"threshold": 0.5}, inputs=[[0.4, 0.5, 0.6]], outputs=[[0, 0, 1]])
