"""HardSwish."""

from tests.layers.harness import case

test_values = case("HardSwish", inputs=[[-4, -3, -1, 0, 1, 3, 4]], outputs=[[0, 0, -1 / 3, 0, 2 / 3, 3, 4]])
