"""Layers that change nothing."""

import numpy as np

from tests.layers.harness import case, rejects
from tests.layers.keras.recorded import recorded

X = np.float32([[1, -2, 3]])
CONFIG = {"name": "layer", "trainable": True, "dtype": "float32"}

globals().update(recorded("identity"))

test_base_class_gives_its_input = case("Layer", CONFIG, inputs=[X], outputs=[X], format="keras")
test_base_class_has_no_weights = rejects(
    "Layer",
    CONFIG,
    inputs=[X],
    blobs=[X],
    format="keras",
    text="is of type Layer, Keras' base class, but has 1 weights: it is a class of its own. Give a class for it",
)
test_base_class_has_no_fields = rejects("Layer", {"gain": 2}, inputs=[X], format="keras", text="gain")
