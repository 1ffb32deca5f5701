"""HardSigmoid."""

from tests.layers.harness import case

test_values = case("HardSigmoid", inputs=[[-3, -2.5, 0, 1, 2.5, 9]], outputs=[[0, 0, 0.5, 0.7, 1, 1]])
