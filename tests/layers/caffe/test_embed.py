"""Embed."""

from tests.layers.harness import case, ramp, rejects

SIZES = {"num_output": 2, "input_dim": 3}

test_rows = case(
    "Embed",
    {**SIZES, "bias_term": False},
    inputs=[[[0, 2], [1, 1]]],
    blobs=[ramp(3, 2)],
    outputs=[[[[0, 1], [4, 5]], [[2, 3], [2, 3]]]],
)
test_bias = case("Embed", SIZES, inputs=[[2]], blobs=[ramp(3, 2), [10, 20]], outputs=[[[14, 25]]])
test_missing = rejects("Embed", {"num_output": 2}, inputs=[[2]], text="parameter 'input_dim' is missing")
test_rejects_num_output_of_0 = rejects(
    "Embed", {"num_output": 0, "input_dim": 1}, inputs=[[2]], text="num_output must be at least 1, got 0"
)
test_rejects_input_dim_of_0 = rejects(
    "Embed", {"num_output": 1, "input_dim": 0}, inputs=[[2]], text="input_dim must be at least 1, got 0"
)
