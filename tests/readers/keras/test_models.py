"""Models saved by real Keras match its outputs: tests/data/keras (make_models.py there), and reference data."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tools.reference import REFERENCE, needs_data

import anylayer
from anylayer.testing import assert_same
from tests.engine_names import ALL

DATA = Path(__file__).parents[2] / "data" / "keras"
MODELS = REFERENCE / "tf_keras"
ENGINES = ALL

NAMES = ("nested", "text", "text_branches", "old_functions", "steps", "stacked_cells")
FILES = [
    *(f"{name}.keras" for name in (*NAMES, "operations", "more_operations", "inputs_by_name")),
    *(f"k2_{name}.h5" for name in (*NAMES, "tf_functions")),
]
OTHER_FORMS = [*(f"{name}.h5" for name in (*NAMES, "operations")), *(f"k2_{name}.keras" for name in NAMES)]


def check(net: anylayer.Net, stored: Path, engine: str) -> None:
    """Fail unless the network computes the stored outputs from the stored inputs."""
    with np.load(stored) as arrays:
        inputs = [arrays[f"in{i}"] for i in range(len(net.inputs))]
        want = [arrays[key] for key in arrays if key.startswith("out")]
    feeds = dict(zip(net.inputs, inputs))
    model = net.compile(engine, shapes={name: x.shape for name, x in feeds.items()})
    got = list(model(feeds).values())
    assert model.host_calls == []
    assert len(got) == len(want)
    for name, g, w in zip(net.outputs, got, want):
        assert_same(np.asarray(g), w, name)


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("file", FILES)
def test_model_matches_keras(file: str, engine: str) -> None:
    check(anylayer.read(DATA / file), (DATA / file).with_suffix(".npz"), engine)


@pytest.mark.parametrize("file", OTHER_FORMS)
def test_model_in_the_other_file_format(file: str) -> None:
    check(anylayer.read(DATA / file), (DATA / file).with_suffix(".npz"), "numpy")


@pytest.mark.parametrize(
    ("model", "weights"),
    [
        ("nested.json", "nested.weights.h5"),
        ("nested.json", "nested.h5"),
        ("nested.json", "nested.keras"),
        ("k2_nested.json", "k2_nested.weights.h5"),
        ("k2_nested.json", "k2_nested_weights.h5"),
        ("k2_nested.json", "k2_nested.h5"),
    ],
)
def test_json_with_weights(model: str, weights: str) -> None:
    net = anylayer.read(DATA / model, DATA / weights)
    assert net.network.weights == str(DATA / weights)
    check(net, (DATA / model).with_suffix(".npz"), "numpy")


def test_json_alone_has_no_weights() -> None:
    net = anylayer.read(DATA / "nested.json")
    assert net.network.weights == ""
    net.fill()
    model = net.compile("onnxruntime")
    feeds = {name: np.zeros(type_.shape, np.float32) for name, type_ in net.inputs.items() if type_ is not None}
    assert [y.shape for y in model(feeds).values()] == [(1, 3), (1, 4, 4, 6), (1, 4, 4, 4)]


def test_layer_without_the_field_trainable_is_no_function(tmp_path: Path) -> None:
    """HDF5 files of Keras 3 do not have the modules of classes. SpatialDropout2D does not store `trainable`."""
    shape = [None, 4, 5, 2]
    x = {"class_name": "__keras_tensor__", "config": {"shape": shape, "keras_history": ["x", 0, 0]}}
    call = {"args": [x], "kwargs": {"training": False}}
    layers: list[dict[str, Any]] = [
        {"class_name": "InputLayer", "name": "x", "config": {"batch_shape": shape, "sparse": False, "name": "x"}},
        {"class_name": "SpatialDropout2D", "name": "drop", "config": {"rate": 0.2, "name": "drop"}},
    ]
    layers[0]["inbound_nodes"], layers[1]["inbound_nodes"] = [], [call]
    config = {"name": "net", "layers": layers, "input_layers": ["x", 0, 0], "output_layers": ["drop", 0, 0]}
    path = tmp_path / "net.json"
    path.write_text(json.dumps({"class_name": "Functional", "config": config}))
    given = np.ones((1, 4, 5, 2), np.float32)
    assert_same(anylayer.read(path).compile("numpy")(given)["drop"], given)


@needs_data("tf_keras")
@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("name", ["blog", "deconv_upsample", "flatten_dense", "stride_same_even"])
def test_model_of_the_reference_data_matches_keras(name: str, engine: str) -> None:
    net = anylayer.read(MODELS / f"{name}{'.h5' if engine == 'numpy' else '.keras'}")
    known = np.load(MODELS / f"{name}.npz")
    ((input_, _),) = net.inputs.items()
    model = net.compile(engine, shapes={input_: known["x"].shape})
    assert_same(next(iter(model({input_: known["x"]}).values())), known["y"])
