"""Files that are not a Caffe network: the error says what they are."""

from __future__ import annotations

import io
import zipfile
from pathlib import Path

import numpy as np
import onnx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image
from tools.reference import REFERENCE, needs_data

import anylayer
from anylayer.errors import AnyLayerError, FileError
from anylayer.readers._recognize import describe, unread
from anylayer.readers.caffe import match, read
from tests.readers.files import INPUT, blob, floats, integer, layer, message, shape, string

NET = INPUT + "layer { name: 'a' type: 'ReLU' bottom: 'data' top: 'x' }"


def picture(form: str) -> bytes:
    out = io.BytesIO()
    Image.new("RGB", (4, 4)).save(out, form)
    return out.getvalue()


def zipped(*names: str) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        for name in names:
            archive.writestr(name, "x")
    return out.getvalue()


def array() -> bytes:
    out = io.BytesIO()
    np.save(out, np.zeros(3))
    return out.getvalue()


def onnx_model() -> bytes:
    value = onnx.helper.make_tensor_value_info("x", 1, [1])
    graph = onnx.helper.make_graph([onnx.helper.make_node("Relu", ["x"], ["x2"])], "g", [value], [])
    return onnx.helper.make_model(graph, producer_name="someone").SerializeToString()


GRAPH = message(1, string(1, "x"), string(2, "Placeholder")) + message(4, integer(1, 27))

FILES = [
    (b"", "an empty file"),
    (picture("PNG"), "a picture (PNG)"),
    (picture("JPEG"), "a picture (JPEG)"),
    (picture("GIF"), "a picture (GIF)"),
    (picture("BMP"), "a picture (BMP)"),
    (picture("TIFF"), "a picture (TIFF)"),
    (picture("WEBP"), "a picture (WebP)"),
    (b"\x89HDF\r\n\x1a\n", "an HDF5 file"),
    (array(), "a NumPy array (.npy)"),
    (zipped("arr_0.npy"), "a NumPy archive (.npz)"),
    (zipped("metadata.json"), "a Keras model (.keras)"),
    (zipped("net/data.pkl"), "a PyTorch checkpoint"),
    (zipped("a.txt"), "a zip archive"),
    (b"\x80\x04\x95", "a Python pickle"),
    (b"\x1f\x8b\x08", "a gzip archive"),
    (b"\x1c\0\0\0TFL3", "a TensorFlow Lite model"),
    (b"\x7fELF\2", "a program or shared library"),
    (b"<!DOCTYPE html>\n<html>", "a web page (the download returned a page instead of the file)"),
    (b"<?xml version='1.0'?>\n<net name='x'>", "an OpenVINO model (IR)"),
    (b"<?xml version='1.0'?>\n<a/>", "an XML file"),
    (b'{"nodes": []}', "a JSON file"),
    (b"# yolo\n[net]\nwidth=416", "a Darknet network (.cfg)"),
    (b"; settings\n[core]\nbare = false\n", "a configuration file (INI)"),
    (b"7767517\n3 3\n", "an ncnn network"),
    ("layer".encode("utf-16"), "a text in UTF-16 (save it in UTF-8)"),
    (
        b"version https://git-lfs.github.com/spec/v1\n",
        "a Git LFS pointer (download the file itself with git lfs pull)",
    ),
    (onnx_model(), "an ONNX model"),
    (GRAPH, "a TensorFlow graph"),
    (integer(1, 100) + string(2, "x.caffemodel") + message(3, floats(5, [1])), "a Caffe solver state"),
]


@pytest.mark.parametrize(("data", "what"), FILES, ids=[what.split(":")[0] for _, what in FILES])
def test_other_files_are_named(data: bytes, what: str) -> None:
    Path("deploy.prototxt").write_bytes(data)
    assert describe(Path("deploy.prototxt")) == what
    with pytest.raises(FileError) as caught:
        read(Path("deploy.prototxt"))
    assert str(caught.value) == f"deploy.prototxt: this is {what}, not a Caffe network"
    Path("thing").write_bytes(data)
    assert not match(Path("thing"))
    if what == "an HDF5 file":
        return
    Path("deploy.prototxt").write_text(NET)
    with pytest.raises(FileError) as caught:
        read(Path("deploy.prototxt"), Path("thing"))
    assert str(caught.value) == f"thing: this is {what}, not weights (.caffemodel or .caffemodel.h5)"


@pytest.mark.parametrize(
    ("data", "what"),
    [
        (layer("a", blob([1], [1])), "a Caffe model (binary)"),
        (string(1, "net") + message(2, string(4, "a"), integer(5, 4)), "a Caffe model (binary)"),
        (string(1, "") + string(3, "data") + layer("a"), "a Caffe model (binary)"),
        (shape(1, 2) + floats(5, [1, 2]), "a Caffe blob (.binaryproto)"),
        (
            integer(1, 1) + integer(2, 3) + integer(3, 1) + integer(4, 1) + floats(5, [1, 2, 3]),
            "a Caffe blob (.binaryproto)",
        ),
        (NET.encode(), ""),
        (b"name: 'BM'", ""),
        (b"BM: 1", ""),
        (bytes(range(200)), ""),
    ],
)
def test_other_files_of_caffe_are_named(data: bytes, what: str) -> None:
    Path("x").write_bytes(data)
    assert describe(Path("x")) == what


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        (
            "net: 'train_val.prototxt'\nbase_lr: 0.01",
            "this is a solver, not a network; its network is 'train_val.prototxt'",
        ),
        (
            "train_net: 'a.prototxt' test_net: 'b.prototxt' max_iter: 5",
            "this is a solver, not a network; its network is 'a.prototxt', 'b.prototxt'",
        ),
        ("lr_policy: 'step'", "this is a solver, not a network"),
        ("item { name: 'a' label: 1 }\nitem { name: 'b' }", "this is a label map, not a network"),
        ("# nothing\n", "the file has nothing but comments and white space"),
        ("name: 'x' input: 'data'", "this is not a network: it has no layer, only input, name"),
    ],
)
def test_texts_without_network_are_refused(text: str, rule: str) -> None:
    Path("deploy.prototxt").write_text(text)
    with pytest.raises(FileError) as caught:
        read(Path("deploy.prototxt"))
    assert str(caught.value) == f"deploy.prototxt: {rule}"


def test_swapped_arguments_are_refused() -> None:
    Path("deploy.prototxt").write_text(NET)
    Path("net.caffemodel").write_bytes(layer("a", string(3, "data"), type_="ReLU"))
    with pytest.raises(FileError) as caught:
        read(Path("net.caffemodel"), Path("deploy.prototxt"))
    assert str(caught.value) == (
        "deploy.prototxt: this is a prototxt (text) without weights. "
        "Give the prototxt first, and then the .caffemodel"
    )


@pytest.mark.parametrize(
    ("data", "weights", "rule"),
    [
        (layer("a"), None, "net.prototxt: this is a binary .caffemodel, not a prototxt (text)"),
        (bytes(range(200)), None, "net.prototxt: this is a binary file of an unknown kind, not a prototxt"),
        (NET.encode(), bytes(range(200)), "thing: this is a binary file of an unknown kind, not a .caffemodel"),
        (NET.encode(), string(1, "net") + string(9, "x") + layer("a")[:0], "thing: this is a"),
    ],
)
def test_binary_and_text_in_the_wrong_place_are_refused(data: bytes, weights: bytes | None, rule: str) -> None:
    Path("net.prototxt").write_bytes(data)
    if weights is not None:
        Path("thing").write_bytes(weights)
    with pytest.raises(FileError) as caught:
        read(Path("net.prototxt"), Path("thing") if weights is not None else None)
    assert str(caught.value).startswith(rule)


def test_weights_file_without_layers_is_refused() -> None:
    Path("net.prototxt").write_text(NET)
    Path("net.caffemodel").write_bytes(string(1, "net") + integer(5, 1))
    with pytest.raises(FileError, match=r"^net\.caffemodel: the file has no layers$"):
        read(Path("net.prototxt"), Path("net.caffemodel"))


def test_missing_files_are_named() -> None:
    Path("folder").mkdir()
    Path("net.prototxt").write_text(NET)
    for model, weights, rule in [
        ("nowhere.prototxt", None, "nowhere.prototxt: there is no such file"),
        ("folder", None, "folder: this is a folder, expected a model file"),
        ("net.prototxt", "nowhere.caffemodel", "nowhere.caffemodel: there is no such file"),
        ("net.prototxt", "folder", "folder: this is a folder, expected a weights file"),
    ]:
        with pytest.raises(FileError) as caught:
            read(Path(model), weights and Path(weights))
        assert str(caught.value) == rule


@pytest.mark.parametrize(
    ("name", "data", "matches"),
    [
        ("a.prototxt", b"", True),
        ("a.PROTOTXT", b"\x89PNG", True),
        ("a.caffemodel", b"", True),
        ("a.caffemodel.h5", b"", True),
        ("a.txt", b"# x\n  layer {\n", True),
        ("a.txt", b"name: 'x'\nlayers: <", True),
        ("a.txt", b"input_shape { dim: 1 }", True),
        ("a.txt", b"some player { }", False),
        ("a.bin", layer("a"), True),
        ("a.pb", GRAPH, False),
        ("a.onnx", onnx_model(), False),
    ],
)
def test_caffe_files_match(name: str, data: bytes, matches: bool) -> None:
    Path(name).write_bytes(data)
    assert match(Path(name)) is matches


@needs_data("tf_keras", "models", "golden", "prototxt")
def test_real_files_are_recognized() -> None:
    for file in (REFERENCE / "tf_keras").iterdir():
        expected = {".pb": "a TensorFlow graph", ".h5": "an HDF5 file", ".keras": "a Keras model (.keras)"}
        assert describe(file) == expected.get(file.suffix, "a NumPy archive (.npz)"), file.name
    for file in [*REFERENCE.glob("models/*/*.caffemodel"), *REFERENCE.glob("golden/*/*/weights.caffemodel")]:
        assert describe(file) == "a Caffe model (binary)", file
    for file in REFERENCE.glob("models/*/*.onnx"):
        assert describe(file) == "an ONNX model", file
    for file in REFERENCE.glob("prototxt/*"):
        assert describe(file) == "", file


@given(st.binary(max_size=200))
@settings(max_examples=300, deadline=None)
def test_describe_accepts_any_bytes(data: bytes) -> None:
    Path("thing").write_bytes(data)
    assert isinstance(describe(Path("thing")), str)
    for name in ("net.caffemodel", "net.prototxt"):
        Path(name).write_bytes(data)
        with pytest.raises(AnyLayerError):
            read(Path(name))


@pytest.mark.parametrize(
    ("name", "data", "what", "remedy"),
    [
        (
            "net.pt",
            zipped("net/data.pkl"),
            "a PyTorch checkpoint",
            "Export the model as ONNX with torch.onnx.export",
        ),
        (
            "net.jit",
            zipped("net/data/0", "net/code/__torch__/a.py"),
            "a TorchScript program",
            "Export the model as ONNX with torch.onnx.export(torch.jit.load(path), ...)",
        ),
        ("net.engine", b"\0\1\2\3" * 9, "a TensorRT engine, judged by its name", "Give the ONNX file"),
        ("net.nb", b"\0\1\2\3" * 9, "a Paddle Lite model, judged by its name", "Export the model as ONNX with"),
        ("net.zip", zipped("saved/saved_model.pb"), "a zip archive", "Unpack it, and give a file or folder of it"),
        ("net.engine", b"some text", "nothing anylayer knows", ""),
    ],
)
def test_foreign_model_is_refused_with_a_remedy(name: str, data: bytes, what: str, remedy: str) -> None:
    Path(name).write_bytes(data)
    with pytest.raises(FileError) as caught:
        anylayer.read(name)
    assert f"this is {what}; anylayer reads a Caffe network" in str(caught.value)
    assert remedy in str(caught.value)


def test_schema_that_is_not_text_is_named() -> None:
    Path("deploy.prototxt").write_text(NET)
    Path("fork.proto").write_bytes(layer("a", blob([1], [1])))
    with pytest.raises(FileError, match=r"fork\.proto: this is a Caffe model \(binary\), not a schema of Caffe"):
        read(Path("deploy.prototxt"), proto="fork.proto")


def test_text_with_a_byte_order_mark_is_recognized() -> None:
    graph = b'node { name: "x" op: "Placeholder" attr { key: "dtype" value { type: DT_FLOAT } } }\r\n'
    graph += b'node { name: "y" op: "Relu" input: "x" attr { key: "T" value { type: DT_FLOAT } } }'
    Path("graph.pbtxt").write_bytes(b"\xef\xbb\xbf" + graph)
    assert describe(Path("graph.pbtxt")) == "a TensorFlow graph (text)"
    assert list(anylayer.read("graph.pbtxt").inputs) == ["x"]


def test_weights_alone_need_their_network() -> None:
    Path("net.weights.h5").write_bytes(b"\x89HDF\r\n\x1a\n")
    what, remedy = unread(Path("net.weights.h5"))
    assert what == "an HDF5 file"
    assert "give the network first (.json, .keras, .prototxt" in remedy
