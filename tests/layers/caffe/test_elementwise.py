"""BNLL, GELU, HardSigmoid, HardSwish and Mish."""

from tests.layers.harness import case

test_bnll = case("BNLL", inputs=[[-100, -1, 0, 1, 100]], outputs=[[0, 0.31326169, 0.69314718, 1.31326169, 100]])
test_gelu = case("GELU", inputs=[[-1, 0, 1, 2]], outputs=[[-0.15865526, 0, 0.84134474, 1.9544997]])
test_hard_sigmoid = case("HardSigmoid", inputs=[[-3, -2.5, 0, 1, 2.5, 9]], outputs=[[0, 0, 0.5, 0.7, 1, 1]])
test_hard_swish = case("HardSwish", inputs=[[-4, -3, -1, 0, 1, 3, 4]], outputs=[[0, 0, -1 / 3, 0, 2 / 3, 3, 4]])
test_mish = case("Mish", inputs=[[-1, 0, 1, 20]], outputs=[[-0.30340147, 0, 0.86509835, 20]])
