"""Sigmoid."""

from tests.layers.harness import case

test_values = case("Sigmoid", inputs=[[-90, -1, 0, 1, 90]], outputs=[[0, 0.26894142, 0.5, 0.73105858, 1]])
