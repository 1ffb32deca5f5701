"""Test layer types that functions define."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import anylayer
from anylayer.errors import LayerError
from anylayer.layer import bind, load_layers
from anylayer.network import Node, TensorType

NETWORK = """name: "net"
layer {{ name: "data" type: "Input" top: "data" input_param {{ shape {{ dim: 1 dim: 2 dim: 3 dim: 4 }} }} }}
layer {{ name: "y" type: "Affine" {bottoms} top: "y" {params} }}
"""
DATA = np.arange(24, dtype=np.float32).reshape(1, 2, 3, 4) - 9


def network(folder: Path, params: str = "", bottoms: str = 'bottom: "data"') -> Path:
    path = folder / "net.prototxt"
    path.write_text(NETWORK.format(params=params, bottoms=bottoms))
    return path


def run(path: Path, function: Any, engine: str = "onnxruntime") -> np.ndarray[Any, Any]:
    model = anylayer.read(path, layers={"Affine": function}).compile(engine=engine)
    assert engine == "numpy" or model.host_calls == []
    result: np.ndarray[Any, Any] = model({"data": DATA})["y"]
    return result


def affine(x: Any, *, factor: float = 2.0, shift: float = 0.0) -> Any:
    """Multiply and add."""
    return x * np.float32(factor) + np.float32(shift)


@pytest.mark.parametrize("engine", ["numpy", "onnxruntime"])
def test_keywords_are_fields_of_the_file(tmp_path: Path, engine: str) -> None:
    path = network(tmp_path, "affine_param { shift: -3 }")
    assert np.array_equal(run(path, affine, engine), DATA * 2 - 3)


def test_positional_parameters_are_inputs(tmp_path: Path) -> None:
    path = network(tmp_path, bottoms='bottom: "data" bottom: "data"')
    assert np.array_equal(run(path, lambda a, b: a * b), DATA * DATA)


def test_function_may_return_several_arrays(tmp_path: Path) -> None:
    path = network(tmp_path)
    path.write_text(path.read_text().replace('top: "y"', 'top: "y" top: "z"'))
    outputs = anylayer.read(path, layers={"Affine": lambda x: (x, -x)}).compile(engine="onnxruntime")(
        {"data": DATA}
    )
    assert np.array_equal(outputs["z"], -DATA)


def test_layers_file_with_a_function(tmp_path: Path) -> None:
    layers = tmp_path / "layers.py"
    layers.write_text(
        "import anylayer\n\n@anylayer.layer('Affine')\ndef f(x, *, k):\n    '''Add k.'''\n    return x + k\n"
    )
    net = anylayer.read(network(tmp_path, "affine_param { k: 5 }"), layers=[layers])
    assert np.array_equal(net.compile(engine="onnxruntime")({"data": DATA})["y"], DATA + 5)
    assert net.user_layers["Affine"].summary == "Add k."
    assert net.inspect().nodes[0].origin == str(layers)


def test_weights_are_blobs() -> None:
    node = Node("y", "Affine", ["x"], ["y"], blobs=(np.float32([2, 3, 5, 7]),), place="y")
    definition = load_layers({"Affine": lambda x, *, blobs: x * blobs[0]})["Affine"]
    bound = bind(node, [definition], [TensorType.of((1, 2, 3, 4), np.float32)])
    assert np.array_equal(bound([DATA])[0], DATA * np.float32([2, 3, 5, 7]))


def test_function_that_makes_an_instance_is_not_a_layer(tmp_path: Path) -> None:
    class Negative:
        def forward(self, inputs: list[Any]) -> list[Any]:
            return [-inputs[0]]

    def make(params: Any, blobs: Any) -> Negative:
        return Negative()

    assert np.array_equal(run(network(tmp_path), make), -DATA)


def test_decorated_function_stays_a_function() -> None:
    decorated = anylayer.layer("TestOfAFunction")(affine)
    assert decorated is affine


@pytest.mark.parametrize(
    ("params", "bottoms", "function", "message"),
    [
        (
            "affine_param { scale: 3 }",
            'bottom: "data"',
            affine,
            "function affine does not take 'scale', which the",
        ),
        ("", 'bottom: "data" bottom: "data"', affine, "function affine takes 1 array, the layer has 2 inputs"),
        ("", 'bottom: "data"', lambda x, *, k: x * k, "the file has no field 'k', which function <lambda> needs"),
    ],
)
def test_what_does_not_fit_is_refused(
    tmp_path: Path, params: str, bottoms: str, function: Any, message: str
) -> None:
    with pytest.raises(LayerError, match=message) as caught:
        run(network(tmp_path, params, bottoms), function)
    assert "net.prototxt:3: layer 'y' (Affine)" in str(caught.value)


def test_all_fields_can_be_taken(tmp_path: Path) -> None:
    path = network(tmp_path, "affine_param { a: 3 b: 4 }")
    assert np.array_equal(run(path, lambda x, **fields: x * fields["a"] + fields["b"]), DATA * 3 + 4)
