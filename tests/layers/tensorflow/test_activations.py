"""Tests of the activation functions."""

import numpy as np

from tests.layers.tensorflow.recorded import as_tensorflow, rejects

test_activations_match_tensorflow = as_tensorflow(
    *["Relu", "Relu6", "LeakyRelu", "Elu", "Selu", "Softplus", "Softsign", "Sigmoid", "Softmax", "LogSoftmax"]
)
test_softmax_rejects_scalar = rejects(
    "Softmax", {}, np.float32(1), text="the input must have 1 axis or more, got a scalar"
)
