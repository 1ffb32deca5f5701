"""BNLL."""

from tests.layers.harness import case

test_values = case("BNLL", inputs=[[-100, -1, 0, 1, 100]], outputs=[[0, 0.31326169, 0.69314718, 1.31326169, 100]])
