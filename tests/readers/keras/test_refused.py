"""Keras files that are damaged, hostile or not supported, and the errors that they raise."""

from __future__ import annotations

import copy
import io
import json
import shutil
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

import anylayer
from anylayer.errors import AnyLayerError, FileError, LayerError, NetworkError
from anylayer.readers import keras

DATA = Path(__file__).parents[2] / "data" / "keras"
PARTS = ("metadata.json", "config.json", "model.weights.h5")


def parts(name: str = "old_functions") -> dict[str, bytes]:
    with zipfile.ZipFile(DATA / f"{name}.keras") as archive:
        return {part: archive.read(part) for part in PARTS}


def packed(path: Path, files: dict[str, bytes], how: int = zipfile.ZIP_STORED) -> Path:
    with zipfile.ZipFile(path, "w", how) as archive:
        for name, data in files.items():
            archive.writestr(name, data)
    return path


def refused(path: Path, weights: Path | None = None, kind: type[AnyLayerError] = FileError, **options: Any) -> str:
    with pytest.raises(kind) as caught:
        anylayer.read(path, weights, **options).compile("onnxruntime")
    return str(caught.value).replace(str(path.parent) + "/", "")


def changed(change: Callable[[dict[str, Any]], Any], name: str = "nested") -> dict[str, Any]:
    config: dict[str, Any] = json.loads((DATA / f"{name}.json").read_text())
    found = change(config)
    return config if found is None else dict(found)


def written(folder: Path, config: Any) -> Path:
    path = folder / "model.json"
    path.write_text(config if isinstance(config, str) else json.dumps(config))
    return path


def layers(config: dict[str, Any]) -> dict[str, Any]:
    return {layer["name"]: layer for layer in config["config"]["layers"]}


# ---- archives


def test_member_paths_that_lead_out_are_refused(tmp_path: Path) -> None:
    for name in ("../x", "/x", "a/../../x", "..\\x", "C:/x"):
        text = refused(packed(tmp_path / "m.keras", {**parts(), name: b""}))
        assert text == f"m.keras: the archive has a member '{name}', whose path leads out of the archive"


def test_missing_member_is_named(tmp_path: Path) -> None:
    files = parts()
    del files["model.weights.h5"]
    assert refused(packed(tmp_path / "m.keras", files)) == "m.keras: the archive has no model.weights.h5"


def test_zip_bomb_is_refused(tmp_path: Path) -> None:
    files = {**parts(), "config.json": b" " * (1 << 27)}
    text = refused(packed(tmp_path / "m.keras", files, zipfile.ZIP_DEFLATED))
    assert text.startswith("m.keras: config.json claims 134217728 bytes, ")


def test_compressed_weights_are_read(tmp_path: Path) -> None:
    path = packed(tmp_path / "m.keras", parts(), zipfile.ZIP_DEFLATED)
    assert len(anylayer.read(path).network.nodes[0].blobs) == 2


def test_truncated_archive_is_refused(tmp_path: Path) -> None:
    whole = (DATA / "old_functions.keras").read_bytes()
    for size in (100, 1000, len(whole) // 2, len(whole) - 30):
        (tmp_path / "m.keras").write_bytes(whole[:size])
        assert refused(tmp_path / "m.keras").startswith("m.keras: ")


def test_unpacked_folder_is_read(tmp_path: Path) -> None:
    for name, data in parts().items():
        (tmp_path / name).write_bytes(data)
    assert keras.match(tmp_path)
    assert anylayer.read(tmp_path).network.name == "sequential"
    (tmp_path / "model.weights.h5").write_bytes(b"nothing")
    assert refused(tmp_path).endswith("model.weights.h5: this is not an HDF5 file, in which Keras stores weights")


# ---- JSON


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"class_name": "Sequential", "config": {', "the file is not readable JSON: Expecting "),
        (
            '{"class_name": "Net", "config": {"a": ' + "[" * 100000,
            "the file is not readable JSON: maximum recursion",
        ),
        ('{"class_name": "Net", "config": 3}', "the JSON has no config, so it is not a Keras model"),
        (
            '{"class_name": "MyNet", "config": {"width": 3}}',
            "a model of class 'MyNet' is Python code: the file has its weights, but not its layers. Rebuild it "
            "as a functional model, or export it (model.export) and read the SavedModel or ONNX file",
        ),
        ('{"class_name": "Sequential", "config": {"layers": []}}', "the model has no layers"),
        ('{"class_name": "Sequential", "config": {"layers": [3]}}', "a layer must be an object, got 3"),
        (
            '{"class_name": "Sequential", "config": {"layers": [{"class_name": "Dense", "config": {}}]}}',
            "a layer (Dense) has no name",
        ),
    ],
)
def test_damaged_json_is_refused(tmp_path: Path, text: str, message: str) -> None:
    assert refused(written(tmp_path, text)).startswith(f"model.json: {message}")


def test_cycle_is_refused(tmp_path: Path) -> None:
    def change(config: dict[str, Any]) -> None:
        history = layers(config)["both"]["inbound_nodes"][0]["args"][0][0]["config"]
        history["keras_history"] = ["last", 0, 0]

    text = refused(written(tmp_path, changed(change)), kind=NetworkError)
    assert text.startswith("model.json: the layers form a cycle: ")
    assert "both < " in text and "last" in text


def test_missing_call_is_named(tmp_path: Path) -> None:
    def change(config: dict[str, Any]) -> None:
        config["config"]["output_layers"] = [["shared", 7, 0]]

    text = refused(written(tmp_path, changed(change)), kind=NetworkError)
    assert text == (
        "model.json: the list of the model's outputs reads call 7 of layer 'shared', which does not exist"
    )


def test_missing_output_is_named(tmp_path: Path) -> None:
    def change(config: dict[str, Any]) -> None:
        config["config"]["output_layers"] = [["pair", 1, 5]]

    text = refused(written(tmp_path, changed(change)), kind=NetworkError)
    assert text == "model.json: layer 'pair' has no output 5"


def test_two_layers_with_one_name_are_refused(tmp_path: Path) -> None:
    def change(config: dict[str, Any]) -> None:
        config["config"]["layers"].append(copy.deepcopy(config["config"]["layers"][-1]))

    text = refused(written(tmp_path, changed(change)), kind=NetworkError)
    assert text == "model.json: the model has two layers named 'last'"


def test_unknown_layer_is_named(tmp_path: Path) -> None:
    def change(config: dict[str, Any]) -> None:
        layers(config)["last"]["class_name"] = "Dens"

    text = refused(written(tmp_path, changed(change)), kind=LayerError)
    assert text.startswith("model.json: 1 unknown layer type: 'Dens' (layer 'last'); did you mean 'Dense'?")


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("units", "3", "parameter 'units': must be an integer, got '3'"),
        ("activation", "rleu", "there is no activation 'rleu' in Keras; did you mean 'relu'?"),
        ("beta", 1, "config has no field 'beta'; it has: units, use_bias, activation"),
        ("dtype", {"class_name": "QuantizedDTypePolicy", "config": {"mode": "int8"}}, "is quantized (dtype None)"),
    ],
)
def test_wrong_field_is_named(tmp_path: Path, field: str, value: Any, message: str) -> None:
    def change(config: dict[str, Any]) -> None:
        layers(config)["last"]["config"][field] = value

    path = written(tmp_path, changed(change))
    text = refused(path, DATA / "nested.weights.h5", LayerError)
    assert text.startswith(f"model.json: layer 'last' (Dense): {message}")


# ---- HDF5


def test_weights_without_network_are_refused() -> None:
    text = refused(DATA / "nested.weights.h5")
    assert text.startswith(
        "nested.weights.h5: the file has weights, but no network. Give the network first, its JSON "
        "(model.to_json()) or a Caffe prototxt whose layers have these names: anylayer.read('model.json', "
        "'nested.weights.h5'). The weights of 6 layers: conv2d (shared) [1, 1, 4, 2] [2]; "
    )


def test_weights_of_another_model_are_refused() -> None:
    text = refused(DATA / "nested.json", DATA / "text.keras")
    assert "' belong to no layer of the model" in text
    text = refused(DATA / "nested.json", DATA / "text.h5")
    assert "belong to no layer of the model" in text


def test_weight_with_another_shape_is_refused(tmp_path: Path) -> None:
    def change(config: dict[str, Any]) -> None:
        layers(config)["last"]["config"]["units"] = 5

    text = refused(written(tmp_path, changed(change)), DATA / "nested.weights.h5", LayerError)
    assert text == (
        "model.json: layer 'last' (Dense): blob 0 (kernel) has shape (6, 3) in the weights file, expected (6, 5)"
    )


def test_weights_of_another_instance(tmp_path: Path) -> None:
    """Keras numbers unnamed layers differently in each process, so they are matched by order."""
    shutil.copy(DATA / "k2_old_functions.h5", tmp_path / "w.h5")
    with h5py.File(DATA / "k2_old_functions.h5") as file:
        config = json.loads(file.attrs["model_config"])
    (old,) = {item["config"]["name"] for item in config["config"]["layers"] if item["class_name"] == "Dense"}
    for item in config["config"]["layers"]:
        item["config"]["name"] = item["config"]["name"].replace(old, "dense_41")
    net = anylayer.read(written(tmp_path, {**config, "keras_version": "2.15.0"}), tmp_path / "w.h5")
    assert [b.shape for b in net.network.nodes[0].blobs] == [(4, 5), (5,)]


def edited(folder: Path, edit: Callable[[Any], None], name: str = "k2_old_functions.h5") -> Path:
    path = folder / "m.h5"
    shutil.copy(DATA / name, path)
    with h5py.File(path, "r+") as file:
        edit(file)
    return path


def kernel_of(file: Any) -> tuple[Any, str]:
    group = next(g for g in file["model_weights"].values() if len(g))
    return group, next(iter(group.attrs["weight_names"]))


def test_values_in_other_files_are_refused(tmp_path: Path) -> None:
    (tmp_path / "raw").write_bytes(bytes(80))

    def external(file: Any) -> None:
        group, name = kernel_of(file)
        del group[name]
        group.create_dataset(name, (4, 5), np.float32, external=[(str(tmp_path / "raw"), 0, 80)])

    assert "claims shape (4, 5), 0 bytes are stored in this file" in refused(edited(tmp_path, external))

    def virtual(file: Any) -> None:
        group, name = kernel_of(file)
        del group[name]
        layout = h5py.VirtualLayout((4, 5), np.float32)
        layout[:] = h5py.VirtualSource(str(DATA / "k2_old_functions.h5"), "x", (4, 5))
        group.create_virtual_dataset(name, layout)

    assert "keeps its values in another file" in refused(edited(tmp_path, virtual))


def test_links_to_other_files_are_not_followed(tmp_path: Path) -> None:
    def link(file: Any) -> None:
        del file["model_weights"]
        file["model_weights"] = h5py.ExternalLink(str(DATA / "k2_old_functions.h5"), "/model_weights")

    assert refused(edited(tmp_path, link)).startswith(
        "m.h5: this is not a readable HDF5 file: a part of it is damaged, or a link leads to another file, which "
        "is not followed"
    )


def test_huge_claimed_shape_is_refused(tmp_path: Path) -> None:
    def huge(file: Any) -> None:
        group, name = kernel_of(file)
        del group[name]
        group.create_dataset(name, (1 << 20, 1 << 20), np.float32, chunks=(1 << 10, 1 << 10))

    assert "claims shape (1048576, 1048576), 0 bytes are stored" in refused(edited(tmp_path, huge))


def test_text_as_weights_is_refused(tmp_path: Path) -> None:
    def words(file: Any) -> None:
        group, name = kernel_of(file)
        del group[name]
        group[name] = ["a", "b"]

    assert "holds object, expected numbers" in refused(edited(tmp_path, words))


def test_keras_1_and_theano_are_refused(tmp_path: Path) -> None:
    def old(file: Any) -> None:
        file["model_weights"].attrs["keras_version"] = "1.2.2"

    assert refused(edited(tmp_path, old)) == (
        "m.h5: the weights are of Keras 1.2.2, whose layers differ. Load and save the model in Keras 2"
    )

    assert refused(written(tmp_path, changed(lambda config: config.update(keras_version="1.2.2")))) == (
        "model.json: the model is of Keras 1.2.2, whose layers differ. Load and save it in Keras 2"
    )

    def theano(file: Any) -> None:
        file["model_weights"].attrs["backend"] = "theano"

    assert refused(edited(tmp_path, theano)).startswith("m.h5: the weights were saved with the backend 'theano', ")


def test_damaged_heap_does_not_loop(tmp_path: Path) -> None:
    """libhdf5 loops forever in a heap of texts whose free space has size 0."""
    data = bytearray((DATA / "k2_old_functions.h5").read_bytes())
    heap = data.find(b"GCOL\1")
    data[heap + 16 : heap + 32] = bytes(16)
    (tmp_path / "m.h5").write_bytes(data)
    assert refused(tmp_path / "m.h5").startswith(
        "m.h5: this is not a readable HDF5 file: its structure is damaged"
    )


def test_truncated_hdf5_file_is_refused(tmp_path: Path) -> None:
    whole = (DATA / "k2_old_functions.h5").read_bytes()
    (tmp_path / "m.h5").write_bytes(whole[: len(whole) // 2])
    assert refused(tmp_path / "m.h5").startswith("m.h5: this is not a readable HDF5 file: ")


# ---- implicit masks


def masked(folder: Path, kind: str, config: dict[str, Any]) -> Path:
    """Write a model with an Embedding with mask_zero, a Conv1D that ends the mask, and a layer that reads both."""

    def item(kind: str, name: str, config: dict[str, Any], *sources: str) -> dict[str, Any]:
        nodes = [[[source, 0, 0, {}] for source in sources]] if sources else []
        return {"class_name": kind, "name": name, "config": {"name": name, **config}, "inbound_nodes": nodes}

    listed = [
        item("InputLayer", "x", {"batch_input_shape": [None, 4], "dtype": "int32", "sparse": False}),
        item("Embedding", "e", {"input_dim": 5, "output_dim": 3, "mask_zero": True}, "x"),
        item("Conv1D", "c", {"filters": 3, "kernel_size": 1}, "e"),
        item(kind, "last", config, "e", "c"),
    ]
    inside = {"name": "net", "layers": listed, "input_layers": [["x", 0, 0]], "output_layers": [["last", 0, 0]]}
    return written(folder, {"class_name": "Functional", "config": inside, "keras_version": "2.15.0"})


def test_inputs_with_different_masks_are_refused(tmp_path: Path) -> None:
    text = refused(masked(tmp_path, "Add", {}), kind=NetworkError)
    assert text == "model.json: layer 'last' (Add): its inputs have different masks, which is not supported"


def test_attention_with_an_implicit_mask_is_refused(tmp_path: Path) -> None:
    text = refused(masked(tmp_path, "MultiHeadAttention", {"num_heads": 1, "key_dim": 2}), kind=NetworkError)
    assert text == (
        "model.json: layer 'last' (MultiHeadAttention): a layer before it passes a mask (as mask_zero does), "
        "which this layer does not support"
    )


# ---- files of Keras 2.2


def test_sequential_model_of_keras_2_2(tmp_path: Path) -> None:
    """The configuration is the list of layers, and the first layer states the input's shape."""
    dense = {"name": "d", "units": 2, "batch_input_shape": [None, 3], "dtype": "float32", "activation": "relu"}
    path = written(tmp_path, {"class_name": "Sequential", "config": [{"class_name": "Dense", "config": dense}]})
    net = anylayer.read(path)
    assert {name: str(type_) for name, type_ in net.inputs.items()} == {"d_input": "float32[1, 3]"}
    assert net.network.open == {"d_input": (None, 3)}
    assert str(net.fill().outputs["d"]) == "float32[1, 2]"


# ---- Lambda


def with_lambda(folder: Path) -> Path:
    function = {"class_name": "__lambda__", "config": {"code": "4wEAAAA=", "defaults": None, "closure": None}}
    config = {
        "name": "net",
        "layers": [
            {"class_name": "InputLayer", "config": {"batch_shape": [None, 3], "dtype": "float32", "sparse": False,
                                                    "name": "x"}},
            {"class_name": "Lambda", "config": {"name": "twice", "function": function, "trainable": True}},
        ],
    }  # fmt: skip
    return written(folder, {"class_name": "Sequential", "config": config})


class Twice:
    def __init__(self, params: dict[str, Any], blobs: Any) -> None:
        pass

    def forward(self, inputs: Any) -> Any:
        return [2 * inputs[0]]


def test_lambda_needs_a_class(tmp_path: Path) -> None:
    path = with_lambda(tmp_path)
    assert refused(path, kind=LayerError) == (
        "model.json: layer 'twice' (Lambda): is Python code stored in the file, which is not run. Write it as a "
        "class registered under the layer's own name, @anylayer.layer('twice'), "
        "and give the file: layers=['layers.py']. To begin one: anylayer stub MODEL -o layers.py"
    )
    model = anylayer.read(path, layers=[("twice", Twice)]).compile("onnxruntime")
    assert model({"x": np.ones((1, 3), np.float32)})["twice"].tolist() == [[2, 2, 2]]


class Scaled:
    def __init__(self, params: dict[str, Any], blobs: Any) -> None:
        self.factor, self.kernel = params["factor"], blobs[0]

    def forward(self, inputs: Any) -> Any:
        return [inputs[0] @ self.kernel * self.factor]


def test_custom_layer_gets_configuration_and_weights(tmp_path: Path) -> None:
    """The configuration becomes params, the weights become blobs."""

    def rename(file: Any) -> None:
        config = json.loads(file.attrs["model_config"])
        dense = next(item for item in config["config"]["layers"] if item["class_name"] == "Dense")
        dense["class_name"], dense["config"]["factor"] = "Scaled", 2.0
        file.attrs["model_config"] = json.dumps(config)

    path = edited(tmp_path, rename)
    net = anylayer.read(path, layers=[("Scaled", Scaled)])
    node = net.network.nodes[0]
    x = np.ones((1, 4), np.float32)
    first = next(iter(net.inputs))
    got = next(iter(net.compile("onnxruntime", outputs=[node.name])({first: x}).values()))
    assert np.allclose(got, 2 * node.blobs[0].sum(axis=0), atol=1e-5)


def test_keras_files_match() -> None:
    files = ["nested.keras", "nested.h5", "nested.json", "k2_nested_weights.h5", "nested.weights.h5"]
    assert all(keras.match(DATA / file) for file in files)
    assert not keras.match(DATA / "nested.npz")
    assert not keras.match(DATA / "make_models.py")


def test_other_archives_do_not_match(tmp_path: Path) -> None:
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w") as archive:
        archive.writestr("word/document.xml", "<x/>")
    (tmp_path / "m.keras").write_bytes(data.getvalue())
    assert not keras.match(tmp_path / "m.keras")
