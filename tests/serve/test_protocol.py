"""Messages of the Open Inference Protocol: JSON, binary tensors, and refusals of what hostile clients send."""

from __future__ import annotations

import json
from collections import Counter
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

import anylayer
from anylayer.errors import InputError
from anylayer.images.files import decode_image
from anylayer.network import TensorType
from anylayer.serve.protocol import Request, ordered_inputs, parse, response
from anylayer.serve.served import Served, Settings
from anylayer.serve.statistics import Statistics, statistics_json


def message(*inputs: dict[str, Any], **more: Any) -> bytes:
    return json.dumps({"inputs": list(inputs), **more}).encode()


def tensor(**more: Any) -> dict[str, Any]:
    return {"name": "x", "shape": [2, 2], "datatype": "FP32", "data": [1, 2, 3, 4.5], **more}


def test_json_is_read_flat_and_nested() -> None:
    want = np.array([[1, 2], [3, 4.5]], np.float32)
    for data in ([1, 2, 3, 4.5], [[1, 2], [3, 4.5]]):
        found = parse(message(tensor(data=data), id="7"))
        assert found.id == "7" and found.arrays["x"].dtype == np.float32
        np.testing.assert_array_equal(found.arrays["x"], want)


def test_binary_tensors_follow_the_json() -> None:
    a, b = np.arange(6, dtype="<i8").reshape(2, 3), np.array([True, False])
    head = message(
        {"name": "a", "shape": [2, 3], "datatype": "INT64", "parameters": {"binary_data_size": 48}},
        {"name": "b", "shape": [2], "datatype": "BOOL", "parameters": {"binary_data_size": 2}},
    )
    found = parse(head + a.tobytes() + b.tobytes(), len(head))
    np.testing.assert_array_equal(found.arrays["a"], a)
    np.testing.assert_array_equal(found.arrays["b"], b)


def test_pictures_are_elements_with_their_lengths() -> None:
    head = message({"name": "x", "shape": [2], "datatype": "BYTES", "parameters": {"binary_data_size": 13}})
    body = head + b"\x02\0\0\0ab" + b"\x03\0\0\0cde"
    assert parse(body, len(head)).pictures == {"x": [b"ab", b"cde"]}


SIZE = {"binary_data_size": 16}


@pytest.mark.parametrize(
    ("body", "size", "text"),
    [
        (b"", None, "does not start with JSON"),
        (b"[" * 100_000, None, "does not start with JSON"),
        (b"[1]", None, "must be an object"),
        (b"{}", None, "no 'inputs'"),
        (b"{}", 3, "has 2 bytes, but its JSON claims 3"),
        (b'{"inputs": 5}', None, "'inputs' must be a list"),
        (message({"shape": [1]}), None, "an input has no name"),
        (message(tensor(), tensor()), None, "occurs twice"),
        (message(tensor(shape=[2, -1])), None, r"must be a list of sizes, got \[2, -1\]"),
        (message(tensor(shape=[1] * 40)), None, "must be a list of sizes"),
        (message(tensor(shape=[10**9, 10**9])), None, "has 4 values, but shape"),
        (message(tensor(datatype="FP8")), None, "there is no datatype 'FP8'"),
        (message(tensor(datatype=["FP32"])), None, "there is no datatype"),
        (message(tensor(data=["a", "b"])), None, "must be numbers of type float32"),
        (message(tensor(data=[[1, 2], [3]])), None, "must be numbers"),
        (message(tensor(data=[1, 2, 3, 300], datatype="UINT8")), None, "beyond uint8"),
        (message(tensor(data=[1.5, 2, 3, 4], datatype="INT32")), None, "must be numbers of type int32"),
        (message(tensor(parameters=SIZE)), len(message(tensor(parameters=SIZE))), "claims 16 binary bytes, but 0"),
        (message(tensor()) + b"x", len(message(tensor())), "1 byte after the data"),
        (message(tensor(datatype="BYTES", data=["a"])), None, "pictures must be binary data"),
        (message(tensor(), outputs=[{"name": "y", "parameters": {"classification": 3}}]), None, "classification"),
    ],
)
def test_damaged_messages_are_refused(body: bytes, size: int | None, text: str) -> None:
    with pytest.raises(InputError, match=text):
        parse(body, size)


def test_lengths_of_pictures_are_checked() -> None:
    head = message({"name": "x", "shape": [1], "datatype": "BYTES", "parameters": {"binary_data_size": 6}})
    with pytest.raises(InputError, match="an element claims 4294967295 bytes, 2 follow"):
        parse(head + b"\xff\xff\xff\xffab", len(head))


def test_response_has_json_and_binary_outputs() -> None:
    outputs = {"y": np.array([[1.5, -2]], np.float32), "k": np.array([3], np.int64)}
    request = Request({}, outputs={"y": True, "k": False}, id="q")
    pieces, size = response("net", request, outputs)
    assert size is not None
    whole = b"".join(bytes(piece) for piece in pieces)
    head = json.loads(whole[:size])
    assert (head["model_name"], head["id"]) == ("net", "q")
    y, k = head["outputs"]
    assert y == {"name": "y", "datatype": "FP32", "shape": [1, 2], "parameters": {"binary_data_size": 8}}
    assert k == {"name": "k", "datatype": "INT64", "shape": [1], "data": [3]}
    np.testing.assert_array_equal(np.frombuffer(whole[size:], "<f4"), [1.5, -2])
    with pytest.raises(InputError, match="there is no output 'z'"):
        response("net", Request({}, outputs={"z": True}), outputs)


def test_inputs_must_have_the_networks_types() -> None:
    types = {"x": TensorType((1, 2)), "i": TensorType.of((3,), np.int64)}
    sizes: dict[str, list[int | None]] = {"x": [None, 2], "i": [3]}
    x, i = np.zeros((5, 2), np.float32), np.zeros(3, np.int64)
    assert list(ordered_inputs(Request({"i": i, "x": x}), types, sizes)) == ["x", "i"]
    for arrays, text in [
        ({"x": x}, "input 'i' is missing"),
        ({"x": x, "i": i, "j": i}, "has no input 'j'"),
        ({"x": x.T, "i": i}, r"'x' must have shape \[-1, 2\], got \[2, 5\]"),
        ({"x": x, "i": i.astype(np.int32)}, "'i' must be INT64, got INT32"),
    ]:
        with pytest.raises(InputError, match=text):
            ordered_inputs(Request(arrays), types, sizes)


def test_statistics_of_several_processes_are_added() -> None:
    one, other = (
        Statistics(Counter({1: 2, 4: 1}), Counter({1: 10, 4: 20})),
        Statistics(Counter({1: 1}), Counter({1: 5})),
    )
    one.add(success=30, queue=7)
    one.add(fail=2)
    other.add(success=50, queue=0)
    found = statistics_json("m", [one, other])
    assert found["inference_count"] == 7 and found["execution_count"] == 4
    assert found["last_inference"] == max(one.last, other.last)
    stats = found["inference_stats"]
    assert (stats["success"], stats["fail"]) == ({"count": 2, "ns": 80}, {"count": 1, "ns": 2})
    assert (stats["queue"], stats["cache_hit"]) == ({"count": 2, "ns": 7}, {"count": 0, "ns": 0})
    assert found["batch_stats"] == [
        {"batch_size": 1, "compute_infer": {"count": 3, "ns": 15}},
        {"batch_size": 4, "compute_infer": {"count": 1, "ns": 20}},
    ]


def test_pictures_of_different_sizes_are_refused(tmp_path: Path) -> None:
    net = 'layer { name: "data" type: "Input" top: "data" input_param { shape { dim: 1 dim: 3 dim: 8 dim: 8 } } }'
    (tmp_path / "net.prototxt").write_text(net + 'layer { name: "r" type: "ReLU" bottom: "data" top: "r" }')

    def decode(picture: bytes) -> Any:
        return decode_image(picture).transpose(2, 0, 1)[None].astype(np.float32)

    settings = Settings("net", "numpy", free={"data": frozenset((2, 3))}, decode={"data": decode})
    served = Served(anylayer.read(tmp_path / "net.prototxt"), settings)
    pictures = []
    for size in ((8, 8), (9, 8)):
        Image.new("RGB", size).save(file := BytesIO(), "PNG")
        pictures.append(file.getvalue())
    assert served.inputs(Request({}, {"data": pictures[:1] * 2}))["data"].shape == (2, 3, 8, 8)
    text = r"the pictures of input 'data' have different sizes: \(3, 8, 8\) and \(3, 8, 9\); send each"
    with pytest.raises(InputError, match=text):
        served.inputs(Request({}, {"data": pictures}))
