"""Keras models in memory, with the attributes of real ones: tests/data/keras/*.live.npz (make_live.py)."""

from __future__ import annotations

import json
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import anylayer
from anylayer.api import Net
from anylayer.readers.keras import is_model, network_of_model
from tests.readers.keras.test_models import DATA, check


class Recorded:
    """A layer or a model with the attributes that were recorded. Its weights can be changed."""

    def __init__(self, tree: Any, stored: Any) -> None:
        self.name, self.arrays, self.json = tree["name"], [stored[key] for key in tree["weights"]], stored["json"]
        if "layers" in tree:
            self.layers = [Recorded(layer, stored) for layer in tree["layers"]]
        if "layer" in tree:
            self.layer = Recorded(tree["layer"], stored)

    def get_weights(self) -> list[Any]:
        return self.arrays

    def to_json(self) -> str:
        return str(self.json)


def recorded(name: str) -> Recorded:
    with np.load(DATA / f"{name}.live.npz") as stored:
        return Recorded(json.loads(str(stored["tree"])), dict(stored))


@pytest.mark.parametrize("name", ["nested", "text", "steps"])
def test_model_in_memory_computes_what_its_file_does(name: str) -> None:
    model = recorded(name)
    assert is_model(model)
    check(Net(network_of_model(model), {}), DATA / f"{name}.npz", "numpy")


@pytest.mark.parametrize("dtype", [np.float64, np.float16, ml_dtypes.bfloat16])
def test_weights_in_memory_are_copied_as_float32(dtype: Any) -> None:
    """A model may compute in 64 or 16 bits, and training may change it after it was read."""
    model = recorded("nested")
    layer = next(layer for layer in model.layers if layer.name == "last")
    layer.arrays = [array.astype(dtype) for array in layer.arrays]
    kept = layer.arrays[0].copy()
    node = next(node for node in network_of_model(model).nodes if node.name == "last")
    layer.arrays[0][:] = 0
    assert {blob.dtype for blob in node.blobs} == {np.dtype(np.float32)}
    np.testing.assert_array_equal(node.blobs[0], kept.astype(np.float32))


def test_layer_without_weights_in_memory_is_reported_by_name() -> None:
    model = recorded("nested")
    model.layers = [layer for layer in model.layers if layer.name != "shared"]
    with pytest.raises(anylayer.AnyLayerError, match=r"shared"):
        check(Net(network_of_model(model), {}), DATA / "nested.npz", "numpy")


def test_objects_without_keras_attributes_are_not_models() -> None:
    assert not is_model(recorded("nested").layers[0])
    assert not is_model(3)
