"""Types of layers and names of classes: which class a layer gets, and suggestions where there is none."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import anylayer
from anylayer.errors import UnknownLayers

X = np.ones((1, 3), np.float32)


class Doubles:
    def __init__(self, params: Any, blobs: Any) -> None:
        pass

    def forward(self, inputs: Any) -> Any:
        return [inputs[0] * np.float32(2)]


def keras(tmp_path: Path, kind: str, **more: Any) -> Path:
    """Write a Keras model of one layer; return its path."""
    first = {"name": "x", "batch_shape": [None, 3], "dtype": "float32", "sparse": False}
    layers = [
        {"class_name": "InputLayer", "config": first},
        {"class_name": kind, "config": {"name": "y", "trainable": True}, **more},
    ]
    path = tmp_path / "net.json"
    path.write_text(json.dumps({"class_name": "Sequential", "config": {"name": "net", "layers": layers}}))
    return path


@pytest.mark.parametrize("kind", ["Gate", "my>Gate"])
@pytest.mark.parametrize("given", ["Gate", "my>Gate"])
def test_registered_keras_class_matches_with_or_without_its_package(tmp_path: Path, kind: str, given: str) -> None:
    net = anylayer.read(keras(tmp_path, kind, registered_name="my>Gate"), layers=[(given, Doubles)])
    assert np.array_equal(net.compile("numpy")({"x": X})["y"], X * 2)


def test_packaged_name_does_not_replace_a_built_in_layer(tmp_path: Path) -> None:
    net = anylayer.read(keras(tmp_path, "ReLU"), layers=[("my>ReLU", Doubles)])
    assert np.array_equal(net.compile("numpy")({"x": -X})["y"], X * 0)


def test_registered_class_with_a_built_in_name_is_not_the_built_in_layer(tmp_path: Path) -> None:
    path = keras(tmp_path, "ReLU", module=None, registered_name="my>ReLU")
    with pytest.raises(UnknownLayers, match="1 unknown layer type: 'my>ReLU'"):
        anylayer.read(path).compile("numpy")
    for given in ("my>ReLU", "ReLU"):
        net = anylayer.read(path, layers=[(given, Doubles)])
        assert np.array_equal(net.compile("numpy")({"x": -X})["y"], -X * 2)


def test_suggestion_prefers_the_users_types(tmp_path: Path) -> None:
    path = keras(tmp_path, "Gate")
    rule = (
        "1 unknown layer type: 'Gate' (layer 'y'); did you mean 'Gatee'? You define, and no layer has: 'Gatee'. To"
    )
    with pytest.raises(UnknownLayers, match=re.escape(rule)):
        anylayer.read(path, layers=[("Gatee", Doubles)]).compile("numpy")
    with pytest.raises(
        UnknownLayers, match=r"\(layer 'y'\)\. You define, and no layer has: 'Other'\. To define them"
    ):
        anylayer.read(path, layers=[("Other", Doubles)]).compile("numpy")
    with pytest.raises(
        UnknownLayers, match=r"\(layer 'y'\)\. To define them: anylayer stub -o layers\.py .*, then layers="
    ):
        anylayer.read(path).compile("numpy")


def test_misspelt_type_gets_a_note_where_a_built_in_layer_is_used(tmp_path: Path) -> None:
    net = anylayer.read(keras(tmp_path, "ReLU"), layers=[("ReLUU", Doubles), ("Other", Doubles)])
    notes = [n for n in net.inspect().notes if "no layer" in n]
    assert notes == ["no layer has the type 'ReLUU', for which a class is given; did you mean 'ReLU'?"]


def test_program_inside_the_file_is_unknown_and_gets_a_stub(tmp_path: Path) -> None:
    from anylayer.cli.stubs import stub_file

    code = "x" * 500
    path = keras(tmp_path, "Lambda")
    model = json.loads(path.read_text())
    model["config"]["layers"][1]["config"]["function"] = {"class_name": "__lambda__", "config": {"code": code}}
    path.write_text(json.dumps(model))
    net = anylayer.read(path)
    report = net.inspect()
    (row,) = report.nodes
    assert (row.where, row.reason) == ("unknown", "a program inside the file, which is not run")
    assert [n.name for n in net.unknown] == ["y"]
    text = stub_file(net.network, report.nodes, ["y"], "anylayer run", {"y"})
    assert '@anylayer.layer("y")\n' in text and code not in text and "in  x: float32[1, 3]" in text
    assert "layout" not in text  # no array of rank 4
    found = anylayer.read(path, layers=[("y", Doubles)])
    assert np.array_equal(found.compile("numpy")({"x": X})["y"], X * 2)


def test_repr_of_a_model_names_engine_inputs_outputs_and_host_calls(tmp_path: Path) -> None:
    class Host(Doubles):
        def forward(self, inputs: Any) -> Any:
            return [inputs[0] * np.float32(float(str(inputs[0].max())))]

    net = anylayer.read(keras(tmp_path, "Gate"), layers=[("Gate", Doubles)])
    assert repr(net.compile("onnxruntime")) == (
        "<anylayer.Model of 'net' on onnxruntime: x float32[1, 3] -> y float32[1, 3]>"
    )
    assert "on numpy: x float32[1, 3] -> y (shape not known)>" in repr(net.compile("numpy"))
    host = anylayer.read(keras(tmp_path, "Gate"), layers=[("Gate", Host)])
    with pytest.warns(UserWarning, match="runs in Python"):
        assert repr(host.compile("onnxruntime")).endswith("-> y float32[1, 3]; in Python: y>")
