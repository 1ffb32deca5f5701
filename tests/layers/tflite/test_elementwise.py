"""Tests of TFLite's functions of elements."""

from __future__ import annotations

from anylayer.layers.tflite import elementwise

from .recorded import as_recorded

test_functions_match_the_recorded_results = as_recorded(
    *elementwise._FUNCTIONS, *elementwise._COMPARISONS, "FAKE_QUANT", "LOGISTIC", "TANH",
    "RELU_N1_TO_1", "RELU_0_TO_1", "LEAKY_RELU", "HARD_SWISH", "GELU", "PRELU", "SOFTMAX",
    "CAST", "DEQUANTIZE", "BUCKETIZE",
)  # fmt: skip
test_functions_of_two_match_the_recorded_results = as_recorded(
    *elementwise._OF_TWO, "ADD", "SUB", "MUL", "DIV", "SELECT", "SELECT_V2", "ATAN2", "BITWISE_XOR", "RIGHT_SHIFT"
)
