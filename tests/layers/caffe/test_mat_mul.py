"""MatMul."""

from tests.layers.harness import case, noise, rejects

A, B = noise(4, 6), noise(5, 6, seed=1)
SIZES = {"dim_1": 4, "dim_2": 6, "dim_3": 5}

test_second_matrix_is_transposed = case("MatMul", SIZES, inputs=[A, B], outputs=[A @ B.T])
test_shapes_have_no_meaning = case("MatMul", SIZES, inputs=[A.reshape(2, 3, 4), B.reshape(30)], outputs=[A @ B.T])
test_reads_only_the_first_elements = case(
    "MatMul",
    {"dim_1": 2, "dim_2": 6, "dim_3": 5},
    inputs=[A, B],
    outputs=[A[:2] @ B.T],
    notes=["only the first 12 of the 24 elements of input 0 are read"],
)
test_rejects_too_few_elements = rejects(
    "MatMul", SIZES, inputs=[A[:3], B], text="input 0 must have at least 4 * 6 elements, got 18"
)
test_rejects_size_0 = rejects(
    "MatMul", {**SIZES, "dim_3": 0}, inputs=[A, B], text="dim_3 must be at least 1, got 0"
)
