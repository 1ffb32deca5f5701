"""GELU."""

from tests.layers.harness import case

test_values = case("GELU", inputs=[[-1, 0, 1, 2]], outputs=[[-0.15865526, 0, 0.84134474, 1.9544997]])
