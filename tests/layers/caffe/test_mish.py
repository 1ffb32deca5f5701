"""Mish."""

from tests.layers.harness import case

test_values = case("Mish", inputs=[[-1, 0, 1, 20]], outputs=[[-0.30340147, 0, 0.86509835, 20]])
