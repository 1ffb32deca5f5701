"""Layers that read a network's inputs from files."""

import pytest

from anylayer.errors import LayerError
from anylayer.layer import Layer, Registry
from anylayer.network import Node, TensorType

TYPES = [
    "Data",
    "AnnotatedData",
    "BoxData",
    "ImageData",
    "DenseImageData",
    "HDF5Data",
    "WindowData",
    "MemoryData",
    "VideoData",
]


def made(type: str, params: dict | None = None, outputs: int = 2) -> Layer:
    definition = Registry.of("caffe").find(type)[0]
    instance = definition.cls.__new__(definition.cls)
    instance.prepare(
        Node("data", type, [], [f"top{i}" for i in range(outputs)], {instance.message: params or {}}), None
    )
    return instance


@pytest.mark.parametrize("type", TYPES)
def test_data_layers_are_inputs(type: str) -> None:
    assert made(type).role == "data"


@pytest.mark.parametrize("type", [t for t in TYPES if t != "MemoryData"])
def test_shape_of_a_data_layer_is_unknown_without_its_files(type: str) -> None:
    assert made(type).input_types() == [None, None]


def test_memory_data_states_its_shape() -> None:
    layer = made("MemoryData", {"batch_size": 2, "channels": 3, "height": 4, "width": 5})
    assert layer.input_types() == [TensorType.of((2, 3, 4, 5)), TensorType.of((2,))]


def test_memory_data_without_a_size() -> None:
    with pytest.raises(LayerError, match=r"height and width must be positive, got \(2, 3, 0, 5\)"):
        made("MemoryData", {"batch_size": 2, "channels": 3, "width": 5}).input_types()
