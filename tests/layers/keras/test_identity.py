"""Tests of the layers that do nothing at inference."""

import numpy as np

from tests.layers.harness import case, rejects
from tests.layers.keras.recorded import recorded

X = np.float32([[1, -2, 3]])
CONFIG = {"name": "layer", "trainable": True, "dtype": "float32"}

globals().update(recorded("identity"))

test_base_class_returns_its_input = case("Layer", CONFIG, inputs=[X], outputs=[X], format="keras")
test_base_class_rejects_weights = rejects(
    "Layer",
    CONFIG,
    inputs=[X],
    blobs=[X],
    format="keras",
    text="is of type Layer, the base class of Keras, but has 1 weights, so it is a class of the user's own. "
    "Give a class for it",
)
test_base_class_rejects_fields = rejects("Layer", {"gain": 2}, inputs=[X], format="keras", text="gain")
