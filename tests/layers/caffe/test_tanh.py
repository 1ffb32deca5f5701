"""TanH."""

from tests.layers.harness import case

test_values = case("TanH", inputs=[[-90, -1, 0, 1]], outputs=[[-1, -0.76159416, 0, 0.76159416]])
