"""Activations."""

import numpy as np

from tests.layers.tensorflow.recorded import as_tensorflow, rejects

test_activations = as_tensorflow(
    *["Relu", "Relu6", "LeakyRelu", "Elu", "Selu", "Softplus", "Softsign", "Sigmoid", "Softmax", "LogSoftmax"]
)
test_scalar = rejects("Softmax", {}, np.float32(1), text="a scalar has no axis to normalise over")
