"""ELU."""

from tests.layers.harness import case

test_default = case("ELU", inputs=[[-1, 0, 2]], outputs=[[-0.63212056, 0, 2]])
test_alpha = case("ELU", {"alpha": 0.5}, inputs=[[-1, 0, 2]], outputs=[[-0.31606028, 0, 2]])
