"""Swish."""

from tests.layers.harness import case

test_default = case("Swish", inputs=[[-1, 0, 2]], outputs=[[-0.26894142, 0, 1.7615942]])
test_beta = case("Swish", {"beta": 2.0}, inputs=[[-1, 0, 2]], outputs=[[-0.11920292, 0, 1.9640276]])
