"""Mean: FlowNet's sum with a value per channel."""

from tests.layers.harness import case, ramp, rejects

X = ramp(1, 2, 1, 2)
test_added = case(
    "Mean", {"operation": "ADD", "value": [10, 20]}, inputs=[X], outputs=[[[[[10, 11]], [[22, 23]]]]]
)
test_subtracted = case(
    "Mean",
    {"operation": "SUBTRACT", "value": [1.0, 2.0], "mean_scale": 2.0, "input_scale": 3.0, "output_scale": 10.0},
    inputs=[X],
    outputs=[[[[[-20, 10]], [[20, 50]]]]],
)
test_values_repeat = case("Mean", {"operation": "ADD", "value": [1]}, inputs=[X, X + 1], outputs=[X + 1, X + 2])
test_rejects_number_of_values_that_does_not_divide_channels = rejects(
    "Mean",
    {"operation": "ADD", "value": [1, 2, 3]},
    inputs=[X],
    text="3 values do not divide the 2 channels of input 0",
)
test_rejects_mean_image_in_a_file = rejects(
    "Mean",
    {"operation": "ADD", "file": "m.binaryproto"},
    inputs=[X],
    text="a mean image ('m.binaryproto') is not supported",
)
test_rejects_missing_values = rejects("Mean", {"operation": "ADD"}, inputs=[X], text="needs at least one value")
test_rejects_missing_operation = rejects(
    "Mean", {"value": [1]}, inputs=[X], text="parameter 'operation' is missing"
)
test_rejects_fewer_outputs_than_inputs = rejects(
    "Mean", {"operation": "ADD", "value": [1]}, inputs=[X, X], text="2 inputs need 2 outputs, got 1"
)
