"""ReLU6."""

from tests.layers.harness import case, rejects

X = [-2, 0, 3, 9]

test_plain = case("ReLU6", inputs=[X], outputs=[[0, 0, 3, 6]])
test_slope = case("ReLU6", {"negative_slope": 0.1}, inputs=[X], outputs=[[-0.2, 0, 3, 6]])
test_slope_of_relu_param = case(
    "ReLU6", {"relu_param": {"negative_slope": 0.1}}, inputs=[X], outputs=[[-0.2, 0, 3, 6]]
)
test_rejects_slope_in_two_messages = rejects(
    "ReLU6",
    {"relu_param": {"negative_slope": 0.1}, "relu6_param": {"negative_slope": 0.1}},
    inputs=[X],
    text="give negative_slope in relu6_param or in relu_param, not in both",
)
