"""Eltwise."""

import numpy as np

from tests.layers.harness import case, ramp, reads, rejects

A, B, C = np.float32([1, -2, 3]), np.float32([4, 5, -6]), np.float32([7, 8, 9])

test_sum_is_default = case("Eltwise", inputs=[A, B, C], outputs=[[12, 11, 6]])
test_coefficients = case("Eltwise", {"coeff": [2, -1, 0.5]}, inputs=[A, B, C], outputs=[[1.5, -5, 16.5]])
test_product = case("Eltwise", {"operation": "PROD"}, inputs=[A, B, C], outputs=[[28, -80, -162]])
test_maximum = case("Eltwise", {"operation": "MAX"}, inputs=[A, B, C], outputs=[[7, 8, 9]])
test_product_in_place = case(
    "Eltwise", {"operation": "PROD"}, inputs=[A, B], in_place=True, outputs=[[4, -10, -18]]
)
test_sum_in_place_leaves_input_0_out = case(
    "Eltwise",
    {"coeff": [2, 3]},
    inputs=[A, B],
    in_place=True,
    outputs=[[12, 15, -18]],
    notes=["SUM in place leaves input 0 out, as Caffe does"],
)
test_maximum_in_place_leaves_input_0_out = case(
    "Eltwise",
    {"operation": "MAX"},
    inputs=[A, B],
    in_place=True,
    outputs=[B],
    notes=["MAX in place leaves input 0 out"],
)
test_rejects_inputs_that_would_broadcast = rejects(
    "Eltwise",
    inputs=[ramp(1, 4, 3, 3), ramp(1, 4, 1, 1)],
    text="inputs must have one shape: input 0 is (1, 4, 3, 3), input 1 is (1, 4, 1, 1). Eltwise does not",
)
test_rejects_fewer_coefficients_than_inputs = rejects(
    "Eltwise", {"coeff": 2}, inputs=[A, B], text="coeff must be given once for each of the 2 inputs, got 1"
)
test_rejects_coefficients_of_a_product = rejects(
    "Eltwise",
    {"operation": 0, "coeff": [1, 1]},
    inputs=[A, B],
    text="coeff goes with operation SUM only, got PROD",
)
test_rejects_single_input = rejects("Eltwise", inputs=[A], text="takes 2 inputs or more, got 1")
test_rejects_unknown_operation = rejects(
    "Eltwise",
    {"operation": "MIN"},
    inputs=[A, B],
    text="parameter 'operation': must be one of PROD, SUM, MAX, got MIN",
)
test_read = reads(
    'layer { name: "e" type: "Eltwise" bottom: "in0" bottom: "in1" top: "y" eltwise_param { operation: MAX } }',
    inputs=2,
    operation="MAX",
    coeff=(),
)
