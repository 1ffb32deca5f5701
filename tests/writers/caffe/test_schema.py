"""The schema of undeclared layers and of a fork's caffe.proto: protobuf reads the written files."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest

import anylayer
from anylayer.errors import ConversionError, LayerError
from anylayer.readers.caffe import prove
from tests.layers.harness import noise

INPUT = 'layer { name: "x" type: "Input" top: "x" input_param { shape { dim: 1 dim: 2 } } }\n'


class Same:
    """Return the input unchanged."""

    params: ClassVar[list[dict[str, Any]]] = []

    def __init__(self, params: dict[str, Any], blobs: list[Any]) -> None:
        self.params.append(params)

    def forward(self, inputs: list[Any]) -> list[Any]:
        return [inputs[0] + 0]


def network(
    folder: Path, *fields: str, type_: str = "Odd", message: str = "odd_param", **options: Any
) -> anylayer.Net:
    """Return a chain of layers of one type, each with its own fields."""
    text, last = INPUT, "x"
    for i, more in enumerate(fields):
        text += f'layer {{ name: "l{i}" type: "{type_}" bottom: "{last}" top: "y{i}" {message} {{ {more} }} }}\n'
        last = f"y{i}"
    (folder / "given.prototxt").write_text(text)
    return anylayer.read(folder / "given.prototxt", layers=[(type_, Same)], **options)


def written(net: anylayer.Net, folder: Path) -> str:
    """Write the network, verified by protobuf, and return the text of the .proto."""
    done = net.write(folder / "net.prototxt")
    assert all(check.ok for check in done.checks)
    anylayer.read(folder / "net.caffemodel", layers=[("Odd", Same)], proto=folder / "net.proto")
    return (folder / "net.proto").read_text()


CASES = {
    "integer, then fraction": (["a: 1", "a: 0.5"], "optional float a = 1;"),
    "fraction, then integer": (["a: 0.5", "a: 1"], "optional float a = 1;"),
    "more digits than float32 has": (["a: 0.123456789012345"], "optional double a = 1;"),
    "a tenth": (["a: 0.1"], "optional double a = 1;"),
    "an integer that float32 lacks": (["a: 0.5", "a: 16777217"], "optional double a = 1;"),
    "infinity": (["a: inf", "a: -inf", "a: nan"], "optional float a = 1;"),
    "truth, then integer": (["a: true", "a: 3"], "optional int32 a = 1;"),
    "truth, then one": (["a: true", "a: 1", "a: f"], "optional bool a = 1;"),
    "truth, then fraction": (["a: true", "a: 0.5"], "optional float a = 1;"),
    "beyond 31 bits": (["a: 3000000000", "a: -1"], "optional int64 a = 1;"),
    "beyond 31 bits in the second": (["a: 1", "a: 3000000000"], "optional int64 a = 1;"),
    "beyond 63 bits": (["a: 18446744073709551615", "a: 1"], "optional uint64 a = 1;"),
    "several words": (["a: MAX", "a: AVE", "a: MAX"], "enum A { MAX = 0; AVE = 1; }"),
    "words and numbers": (["a: MAX", "a: 0", "a: -2"], "enum A { MAX = 1; A_0 = 0; A_MINUS_2 = -2; }"),
    "words that two fields have": (["a: MAX b: AVE", "a: MIN b: MAX"], "message OddParameterB {"),
    "a word that is a field": (["a: b b: 1"], "message OddParameterA {"),
    "strings": (['a: "MAX"', "a: 'it\\'s'"], "optional string a = 1;"),
    "once, then twice": (["a: 1", "a: 2 a: 3"], "repeated int32 a = 1;"),
    "messages": (["a { b: 1 }", "a { b: 0.5 c: X }", "a { c: Y }"], "optional float b = 1;"),
    "messages of one name": (["a { m { b: 1 } } c { m { b: true } }"], "message m2 {"),
    "a field that only the second has": (["a: 1", "b: 2"], "optional int32 b = 2;"),
    "names of Python": (["self: A names: B class: 1"], "optional int32 class = 3;"),
}


@pytest.mark.parametrize("name", CASES)
def test_field_type_fits_values_of_all_layers(tmp_path: Path, name: str) -> None:
    fields, line = CASES[name]
    text = written(network(tmp_path, *fields), tmp_path)
    assert line in text


@pytest.mark.parametrize(
    ("fields", "rule"),
    [
        (["a: 1", 'a: "x"'], r"l0' \(Odd\): field 'a' is an integer \(1\) here and a quoted string \(x\) in "),
        (["a { b: 1 }", "a: 1"], r"l0' \(Odd\): field 'a' is a message \({ ... }\) here and an integer \(1\) in "),
        (["a: true", "a: MAX"], r"l0' \(Odd\): field 'a' is true or false \(true\) here and a word \(MAX\) in "),
        (["a: -1", "a: 18446744073709551615"], r"l1' .* from -1 to 18446744073709551615; no integer type of"),
        (["a: 0.5", "a: 9007199254740993"], r"l1' .* 'a' is 9007199254740993 here and a fraction elsewhere"),
    ],
)  # fmt: skip
def test_values_without_common_type_are_refused(tmp_path: Path, fields: list[str], rule: str) -> None:
    with pytest.raises(LayerError, match=rule):
        network(tmp_path, *fields).write(tmp_path / "net.prototxt")


def test_fields_outside_of_a_message(tmp_path: Path) -> None:
    text = INPUT
    for i, value in enumerate(("1", "0.5")):
        text += f'layer {{ name: "l{i}" type: "Odd" bottom: "x" top: "y{i}" depth: {value} way: W{i} }}\n'
    (tmp_path / "given.prototxt").write_text(text)
    found = written(anylayer.read(tmp_path / "given.prototxt", layers=[("Odd", Same)]), tmp_path)
    assert "optional float depth = 100000;" in found
    assert "enum Way { W0 = 0; W1 = 1; }" in found


def test_user_layer_extends_built_in_message(tmp_path: Path) -> None:
    """The schema contains fields and values that the built-in layer of this message does not accept."""
    net = network(tmp_path, "height: 3 mode: FAST", "height: 1.5", type_="Interp", message="interp_param")
    text = written(net, tmp_path)
    assert re.search(
        r"message InterpParameter \{.*optional float height = 1;.*optional Mode mode = 8;", text, re.S
    )


def test_messages_of_caffe_are_not_replaced(tmp_path: Path) -> None:
    net = network(tmp_path, "a: 1", message="layer_param")
    assert "message LayerParameter2 {" in written(net, tmp_path)


def test_user_layer_gets_params_of_source(tmp_path: Path) -> None:
    net = network(tmp_path, "a: 1 k: true", "a: 0.1 k: 3")
    net.write(tmp_path / "net.prototxt")
    Same.params.clear()
    anylayer.read(tmp_path / "net.prototxt", layers=[("Odd", Same)]).compile("numpy")({"x": noise(1, 2)})
    assert Same.params[-2:] == [{"a": 1, "k": 1}, {"a": 0.1, "k": 3}]
    assert type(Same.params[-2]["a"]) is int


# ---- verification by protobuf


def files(folder: Path) -> tuple[list[Path], dict[str, Any]]:
    net = network(folder, "a: 0.5 b: MAX c { d: 1 }")
    done = net.write(folder / "net.prototxt")
    return done.files, {"l0": net.network.nodes[0].params}


@pytest.mark.parametrize(
    ("index", "old", "new", "rule"),
    [
        (
            2,
            "a: 0.5",
            "a: 0.25",
            r"layer 'l0' \(Odd\): protobuf reads net.prototxt and net.caffemodel differently",
        ),
        (0, "float a =", "int32 a =", r"protobuf refuses net.prototxt, read by net.proto: .*0.5"),
        (0, "B { MAX = 0", "B { MIN = 0", r"protobuf refuses net.prototxt, read by net.proto: .*MAX"),
        (0, "optional float a = 1;", "", r"protobuf refuses net.prototxt, read by net.proto: .*\"a\""),
        (0, "b = 2", "b = 1", r"protobuf refuses net.proto: "),
        (2, '"l0"', '"l1"', r"layer 'l1' \(Odd\): protobuf reads net.prototxt and net.caffemodel differently"),
    ],
)
def test_protobuf_detects_changed_file(tmp_path: Path, index: int, old: str, new: str, rule: str) -> None:
    written, params = files(tmp_path)
    path = written[index]
    path.write_text(path.read_text().replace(old, new))
    with pytest.raises(ConversionError, match=rule):
        prove(written, params)


@pytest.mark.parametrize(
    ("params", "rule"),
    [
        ({"a": 1, "b": "MAX", "c": {"d": 1}}, "field 'odd_param.a' is 1 in the source, but protobuf reads 0.5"),
        (
            {"a": 0.5, "b": "AVE", "c": {"d": 1}},
            'field \'odd_param.b\' is "AVE" in the source, but protobuf reads "MAX"',
        ),
        ({"a": 0.5, "b": "MAX", "c": {"d": 2}}, "field 'odd_param.c.d' is 2 in the source, but protobuf reads 1"),
        ({"a": 0.5, "b": "MAX"}, "field 'odd_param.c' is not in the source, but protobuf reads d: 1"),
        (
            {"a": 0.5, "b": "MAX", "c": {"d": 1}, "e": 1},
            "field 'odd_param.e' is 1 in the source, but protobuf does not find it",
        ),
        (
            {"a": [0.5, 1], "b": "MAX", "c": {"d": 1}},
            "field 'odd_param.a' has 2 values in the source, but protobuf reads 1",
        ),
    ],
)
def test_protobuf_detects_different_params(tmp_path: Path, params: dict[str, Any], rule: str) -> None:
    written, _ = files(tmp_path)
    with pytest.raises(ConversionError, match=re.escape(f"layer 'l0' (Odd): {rule}")):
        prove(written, {"l0": {"odd_param": params}})


# ---- the schema of a fork

FORK = """
message LayerParameter {
  optional OddParameter odd_param = 4711;
  optional ReLUParameter relu_param = 123;
  optional int32 depth = 4712 [default = 9];
}
message OddParameter {
  enum Mode { SLOW = 3; FAST = 7; }
  message Grid { repeated uint32 size = 4; optional sint64 shift = 5 [default = -3]; }
  optional Mode mode = 11 [default = FAST];
  optional double far = 12 [default = 0.1];
  optional Grid grid = 13;
  optional string way = 14 [default = "up"];
  optional fixed32 count = 15;
  optional float near = 16 [default = inf];
}
message ReLUParameter { optional float negative_slope = 1 [default = 0.25]; }
"""


def fork(folder: Path, text: str) -> anylayer.Net:
    (folder / "fork.proto").write_text(FORK)
    (folder / "given.prototxt").write_text(INPUT + text)
    return anylayer.read(folder / "given.prototxt", layers=[("Odd", Same)], proto=folder / "fork.proto")


ODD = """
layer { name: "o" type: "Odd" bottom: "x" top: "y" depth: 2
  odd_param { mode: SLOW grid { size: 3 shift: -5 } count: 7 } }
layer { name: "r" type: "ReLU" bottom: "y" top: "z" }
"""


def test_schema_of_fork_is_kept(tmp_path: Path) -> None:
    net = fork(tmp_path, ODD)
    text = written(net, tmp_path)
    for line in (
        "optional OddParameter odd_param = 4711;",
        "optional int32 depth = 4712 [default = 9];",
        "enum Mode { SLOW = 3; FAST = 7; }",
        "optional Mode mode = 11 [default = FAST];",
        "optional double far = 12 [default = 0.1];",
        'optional string way = 14 [default = "up"];',
        "optional fixed32 count = 15;",
        "optional float near = 16 [default = inf];",
        "repeated uint32 size = 4;",
        "optional sint64 shift = 5 [default = -3];",
        "optional float negative_slope = 1 [default = 0.25];",
    ):
        assert line in text
    assert "pooling_param = 121" in text, "what the fork leaves to Caffe is Caffe's"


def test_defaults_of_fork_are_written(tmp_path: Path) -> None:
    """The slope that is a default in the fork's schema is written, so that readers without the schema find it."""
    fork(
        tmp_path, ODD.replace('type: "Odd"', 'type: "AbsVal"').split("odd_param")[0] + "}\n" + ODD.splitlines()[3]
    ).write(tmp_path / "net.prototxt")
    assert "negative_slope: 0.25" in (tmp_path / "net.prototxt").read_text()


def test_schema_of_fork_in_another_dialect(tmp_path: Path) -> None:
    """The user's layers keep the fork's numbers; Caffe's messages have those of the dialect."""
    net = fork(tmp_path, ODD)
    net.write(tmp_path / "net.prototxt", dialect="bvlc")
    text = (tmp_path / "net.proto").read_text()
    assert "odd_param = 4711;" in text and "Mode mode = 11 [default = FAST];" in text
    assert "optional float negative_slope = 1 [default = 0.0];" in text


def test_complete_schema_of_fork_is_kept(tmp_path: Path) -> None:
    """The .proto that `convert` writes is a complete caffe.proto: given with the files, it is written again."""
    first, second = tmp_path / "first", tmp_path / "second"
    first.mkdir()
    second.mkdir()
    fork(tmp_path, ODD).write(first / "net.prototxt")
    again = anylayer.read(
        first / "net.prototxt", first / "net.caffemodel", layers=[("Odd", Same)], proto=first / "net.proto"
    )
    again.write(second / "net.prototxt")
    lines = [(f / "net.proto").read_text().splitlines() for f in (first, second)]
    assert sorted(set(lines[0])) == sorted(set(lines[1]))


def test_numbers_of_fork_are_reserved(tmp_path: Path) -> None:
    """Swish has number 147 in BVLC's Caffe; a message of the fork with this number keeps it."""
    proto = "message LayerParameter { optional OddParameter odd_param = 147; } message OddParameter { }"
    (tmp_path / "fork.proto").write_text(proto)
    text = INPUT + 'layer { name: "s" type: "Swish" bottom: "x" top: "y" swish_param { beta: 2 } }'
    (tmp_path / "given.prototxt").write_text(text)
    anylayer.read(tmp_path / "given.prototxt", proto=tmp_path / "fork.proto").write(tmp_path / "net.prototxt")
    found = (tmp_path / "net.proto").read_text()
    assert "odd_param = 147;" in found and "swish_param = 100000;" in found


def test_weights_round_trip(tmp_path: Path) -> None:
    net = network(tmp_path, "a: 1", "a: 0.5")
    for i, node in enumerate(net.network.nodes):
        node.blobs = [noise(3, 2, seed=i), noise(2, seed=i)]
    net.write(tmp_path / "net.prototxt")
    again = anylayer.read(tmp_path / "net.prototxt", tmp_path / "net.caffemodel")
    for one, other in zip(net.network.nodes, again.network.nodes):
        assert all(np.array_equal(a, b) for a, b in zip(one.blobs, other.blobs))
