"""Tests of Lambda layers."""

from tests.layers.harness import rejects

test_lambda_code_is_refused = rejects(
    "Lambda",
    {"name": "double", "function": {"class_name": "__lambda__", "config": {"code": "4wEAAAA="}}},
    inputs=[[1, 2]],
    text="is Python code stored in the file, which is not run. Write it as a class registered under the layer's "
    "own name, @anylayer.layer('layer1'), and give the file: layers=['layers.py']",
    format="keras",
)
