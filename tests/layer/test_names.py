"""Which class a layer gets by its type's name, and what is said where none has it."""

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
    """A Keras model of one layer."""
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
def test_a_registered_class_of_keras_has_its_name_with_or_without_the_package(
    tmp_path: Path, kind: str, given: str
) -> None:
    net = anylayer.read(keras(tmp_path, kind, registered_name="my>Gate"), layers=[(given, Doubles)])
    assert np.array_equal(net.compile("numpy")({"x": X})["y"], X * 2)


def test_a_package_does_not_take_the_place_of_a_built_in_layer(tmp_path: Path) -> None:
    net = anylayer.read(keras(tmp_path, "ReLU"), layers=[("my>ReLU", Doubles)])
    assert np.array_equal(net.compile("numpy")({"x": -X})["y"], X * 0)


def test_a_class_of_ones_own_with_a_built_in_name_is_not_taken_for_it(tmp_path: Path) -> None:
    path = keras(tmp_path, "ReLU", module=None, registered_name="my>ReLU")
    with pytest.raises(UnknownLayers, match="1 unknown layer type: 'my>ReLU'"):
        anylayer.read(path).compile("numpy")
    for given in ("my>ReLU", "ReLU"):
        net = anylayer.read(path, layers=[(given, Doubles)])
        assert np.array_equal(net.compile("numpy")({"x": -X})["y"], -X * 2)


def test_the_nearest_name_is_one_of_the_users_own(tmp_path: Path) -> None:
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
    with pytest.raises(UnknownLayers, match=r"\(layer 'y'\)\. To define them"):
        anylayer.read(path).compile("numpy")


def test_a_type_that_is_misspelt_is_noted_where_a_built_in_layer_is_taken(tmp_path: Path) -> None:
    net = anylayer.read(keras(tmp_path, "ReLU"), layers=[("ReLUU", Doubles), ("Other", Doubles)])
    notes = [n for n in net.inspect().notes if "no layer" in n]
    assert notes == ["no layer has the type 'ReLUU', for which a class is given; did you mean 'ReLU'?"]


def test_a_program_inside_the_file_is_unknown_and_gets_a_stub_under_its_own_name(tmp_path: Path) -> None:
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


def test_a_model_shows_its_engine_its_ends_and_what_runs_in_python(tmp_path: Path) -> None:
    class Host(Doubles):
        def forward(self, inputs: Any) -> Any:
            return [inputs[0] * np.float32(float(inputs[0].max()))]

    net = anylayer.read(keras(tmp_path, "Gate"), layers=[("Gate", Doubles)])
    assert repr(net.compile("onnxruntime")) == (
        "<anylayer.Model of 'net' on onnxruntime: x float32[1, 3] -> y float32[1, 3]>"
    )
    assert "on numpy: x float32[1, 3] -> y (shape not known)>" in repr(net.compile("numpy"))
    host = anylayer.read(keras(tmp_path, "Gate"), layers=[("Gate", Host)])
    with pytest.warns(UserWarning, match="runs in Python"):
        assert repr(host.compile("onnxruntime")).endswith("-> y float32[1, 3]; in Python: y>")
