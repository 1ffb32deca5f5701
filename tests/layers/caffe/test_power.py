"""Power."""

from tests.layers.harness import case

X = [[1, 4, 9]]

test_default = case("Power", inputs=[X], outputs=[X])
test_line = case("Power", {"scale": 2, "shift": -1}, inputs=[X], outputs=[[[1, 7, 17]]])
test_square = case("Power", {"power": 2, "shift": 1}, inputs=[X], outputs=[[[4, 25, 100]]])
test_root = case("Power", {"power": 0.5}, inputs=[X], outputs=[[[1, 2, 3]]])
test_cube = case("Power", {"power": 3}, inputs=[[[-1, 2]]], outputs=[[[-1, 8]]])
test_reciprocal = case("Power", {"power": -1, "scale": 2}, inputs=[[[1, -2]]], outputs=[[[0.5, -0.25]]])
test_power_0_is_1 = case("Power", {"power": 0}, inputs=[X], outputs=[[[1, 1, 1]]])
test_scale_0_is_the_power_of_the_shift = case(
    "Power", {"power": 2, "scale": 0, "shift": 3}, inputs=[X], outputs=[[[9, 9, 9]]]
)
