"""A fork's caffe.proto: it is parsed, and the fields of a network are checked and typed by it."""

from __future__ import annotations

import re
import struct
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tools.reference import REFERENCE, needs_data

from anylayer.errors import AnyLayerError, FileError
from anylayer.layer import Enum, Registry, bind
from anylayer.layer.fields import MISSING
from anylayer.network import Flag, Network, TensorType, Word
from anylayer.protobuf.proto_file import core, parse_proto
from anylayer.protobuf.schema import is_undeclared, name_of
from anylayer.readers.caffe import read
from tests.readers.files import INPUT, blob, doubles, integer, layer, message, node, string, varint

FORK = """
syntax = "proto2";   // a fork
package caffe;
import "other.proto";
option optimize_for = SPEED;
/* a comment
   of two lines */
message BlobShape { repeated int64 dim = 1 [packed = true]; }
enum Phase { TRAIN = 0; TEST = 1; }
message NetParameter {
  optional string name = 1;
  repeated V1LayerParameter layers = 2;
  repeated LayerParameter layer = 100;
}
message NetStateRule { optional Phase phase = 1; }
message InputParameter { repeated BlobShape shape = 1; }
message LayerParameter {
  optional string name = 1;
  optional string type = 2;
  repeated string bottom = 3;
  repeated string top = 4;
  repeated BlobProto blobs = 7;
  repeated .caffe.NetStateRule include = 8;
  optional Phase phase = 10;
  optional InputParameter input_param = 143;
  optional WarpParameter warp_param = 200;
  optional ReLUParameter relu_param = 123;
  reserved 5, 9 to 11;
  extensions 1000 to max;
}
message ReLUParameter { optional float negative_slope = 1 [default = 0.25]; }
message WarpParameter {
  enum Method { LINEAR = 0; CUBIC = 3; NEAREST = -1; }
  message Grid {
    optional float step = 1 [default = 2];
    repeated uint32 size = 2 [packed = true];
  }
  optional Method method = 1 [default = CUBIC];
  optional Grid grid = 2;
  optional bool wrap = 3 [default = true, deprecated = true];
  optional string border = 4 [default = 'zero'];
  repeated float scale = 5 [packed=true];
  required int32 count = 6;
  oneof bound { float low = 7; double high = 8; }
  optional int64 big = 9 [default = -5];
  optional float far = 10 [default = -inf];
  map<string, int32> names = 11;
  repeated Grid grids = 12;
}
message V1LayerParameter {
  enum LayerType { NONE = 0; RELU = 18; WARP = 41; }
  repeated string bottom = 2;
  repeated string top = 3;
  optional string name = 4;
  optional LayerType type = 5;
  optional WarpParameter warp_param = 44;
}
extend LayerParameter { optional int32 depth = 1001 [default = 7]; }
"""

WARP = "layer { name: 'w' type: 'Warp' bottom: 'data' top: 'y' warp_param { count: 1 %s } }"


def read_fork(text: str, proto: str = FORK) -> Network:
    Path("deploy.prototxt").write_text(text)
    Path("fork.proto").write_text(proto)
    return read(Path("deploy.prototxt"), proto=Path("fork.proto"))


def test_declarations_are_parsed() -> None:
    schema = parse_proto(FORK, "fork.proto")
    warp = schema.messages["WarpParameter"]
    assert list(warp.fields) == [
        *("method", "grid", "wrap", "border", "scale", "count", "low", "high", "big", "far", "names", "grids")
    ]
    method = warp.fields["method"]
    assert isinstance(method.kind, Enum)
    assert method.kind.numbers == {"LINEAR": 0, "CUBIC": 3, "NEAREST": -1}
    assert method.default == Word("CUBIC")
    assert warp.fields["grid"].kind is schema.messages["WarpParameter.Grid"]
    assert name_of(warp.fields["grid"].kind) == "WarpParameter.Grid"
    assert (warp.fields["wrap"].default, warp.fields["border"].default) == (Flag(True), "zero")
    assert (warp.fields["big"].default, warp.fields["far"].default) == (-5, -np.inf)
    assert warp.fields["scale"].repeated
    assert warp.fields["count"].default is MISSING
    assert schema.messages["LayerParameter"].fields["include"].kind is schema.messages["NetStateRule"]
    assert schema.messages["LayerParameter"].fields["depth"].number == 1001
    assert is_undeclared(schema.messages["LayerParameter"].fields["blobs"].kind)


def test_values_get_their_declared_types() -> None:
    text = "method: 3 scale: 2 wrap: 0 grid { size: 4 } low: 0.1 names { key: 'a' value: 1 }"
    params = node(read_fork(INPUT + WARP % text), "w").params["warp_param"]
    assert params == {
        "count": 1,
        "method": "CUBIC",
        "scale": [2.0],
        "wrap": 0,
        "grid": {"size": [4]},
        "low": float(np.float32(0.1)),
        "names": [{"key": "a", "value": 1}],
    }
    assert type(params["method"]) is Word
    assert type(params["wrap"]) is Flag
    assert type(params["scale"][0]) is float


def test_defaults_of_absent_fields() -> None:
    found = node(read_fork(INPUT + WARP % "wrap: false grid { } grids { }"), "w").defaults
    assert found == {
        "warp_param": {"method": "CUBIC", "border": "zero", "big": -5, "far": -np.inf, "grid": {"step": 2.0}}
    }


def test_defaults_of_an_absent_message() -> None:
    text = INPUT + "layer { name: 'r' type: 'ReLU' bottom: 'data' top: 'y' }"
    assert node(read_fork(text), "r").defaults == {"relu_param": {"negative_slope": 0.25}}


def test_fields_of_a_forks_layer() -> None:
    text = INPUT + "layer { name: 'r' type: 'ReLU' bottom: 'data' top: 'y' depth: 3 }"
    assert node(read_fork(text), "r").params == {"depth": 3}


def test_field_that_only_the_fork_repeats() -> None:
    proto = FORK.replace("optional float negative_slope = 1 [default = 0.25]", "repeated float negative_slope = 1")
    text = "layer { name: 'r' type: 'ReLU' bottom: 'data' top: 'y' relu_param { negative_slope: 0.5 } }"
    relu = node(read_fork(INPUT + text, proto), "r")
    assert relu.params == {"relu_param": {"negative_slope": [0.5]}}
    bound = bind(relu, Registry.of("caffe").find("ReLU"), [TensorType.of((1,))])
    assert bound.instance.negative_slope == 0.5


V1 = "layers { name: 'w' type: %s bottom: 'x' top: 'y' warp_param { count: 2 } }"


@pytest.mark.parametrize("type_", ["WARP", "41"])
def test_v1_type_of_a_fork(type_: str) -> None:
    proto = FORK.replace("optional string name = 1;\n  repeated V1", "repeated string input = 3; repeated V1")
    network = read_fork("input: 'x' " + V1 % type_, proto)
    assert [(n.type, n.params) for n in network.nodes] == [("Warp", {"warp_param": {"count": 2}})]


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        (WARP % "\nmetod: CUBIC", "3: WarpParameter of fork.proto has no field 'metod'; did you mean 'method'?"),
        (
            WARP % "grid { stepp: 1 }",
            "2: WarpParameter.Grid of fork.proto has no field 'stepp'; did you mean 'step'?",
        ),
        (
            WARP % "method: CUBE",
            "2: 'method' must be one of LINEAR, CUBIC, NEAREST, got CUBE; did you mean 'CUBIC'?",
        ),
        (WARP % "method: 1", "2: 'method' must be one of LINEAR, CUBIC, NEAREST, got 1"),
        (
            WARP % "method: 'CUBIC'",
            "2: 'method' must be one of LINEAR, CUBIC, NEAREST, without quotes, got \"CUBIC\"",
        ),
        (WARP % "wrap: 2", "2: 'wrap' must be true or false, got 2"),
        (WARP % "border: zero", "2: 'border' must be a quoted string, got zero"),
        (WARP % "scale: 'a'", "2: 'scale' must be a number, got \"a\""),
        (WARP % "grid { size: -1 }", "2: 'size' must lie in 0..4294967295 (uint32), got -1"),
        (WARP % "big: 1.5", "2: 'big' must be an integer, got 1.5"),
        (WARP % "grid: 3", "2: 'grid' must be a message { ... }, got 3"),
        (WARP % "wrap: true\nwrap: false", "3: 'wrap' is given more than once, but it is not repeated"),
        (
            "layer { name: 'w' type: 'Warp' warp_param { } }",
            "2: 'count' is missing, which WarpParameter of fork.proto requires",
        ),
        ("layer { nam: 'w' }", "2: LayerParameter of fork.proto has no field 'nam'; did you mean 'name'?"),
        ("input: 'x'", "2: NetParameter of fork.proto has no field 'input'"),
    ],
)
def test_wrong_fields_are_refused(text: str, rule: str) -> None:
    with pytest.raises(FileError) as caught:
        read_fork(INPUT + text)
    assert str(caught.value) == f"deploy.prototxt:{rule}"


@pytest.mark.parametrize(
    ("proto", "rule"),
    [
        ("message Foo { }", ": this is not a caffe.proto: it does not declare message LayerParameter"),
        (
            "message LayerParametr { }",
            ": this is not a caffe.proto: it does not declare message LayerParameter; did you mean "
            "'LayerParametr'?",
        ),
        ("message Foo {\n optional int32 a = 1", ":2: expected ;, got 'the end of the file'"),
        ("message Foo {\n int32 a; }", ":2: expected =, got ';'"),
        ("message Foo { optional int32 = 1; }", ":1: expected a name, got '='"),
        ("message Foo { optional int32 a = x; }", ":1: expected a number, got 'x'"),
        (
            "message Foo { optional int32 a = 1; optional int32 a = 2; }",
            ":1: message Foo declares field 'a' twice",
        ),
        ("message Foo { } message Foo { }", ":1: message Foo is declared twice"),
        ("message Foo { repeated group G = 1 { } }", ":1: groups are not supported"),
        ("message Foo { optional int32 a = 1.5; }", ":1: expected an integer, got '1.5'"),
        ("message Foo { optional int32 a = " + "9" * 5000 + "; }", f":1: expected an integer, got '{'9' * 40}'"),
        ("message Foo { optional int32 a = 09; }", ":1: expected an integer, got '09'"),
        ("enum E { A = 1e5; }", ":1: expected an integer, got '1e5'"),
        (
            "message Foo { optional int32 a = 1 [default = 0xfffffffffffffffff]; }",
            ":1: '0xfffffffffffffffff' is not a number",
        ),
        (r"message Foo { optional string a = 1 [default = '\x']; }", r":1: '\x' is not an escape of a string"),
        ("\n/* never", ":2: the comment opened here is not closed"),
        ("message Foo { $ }", ":1: unexpected character '$'"),
        ("layer { }", ":1: expected message, enum or another declaration, got 'layer'"),
        ("message A { " * 100, ":1: messages are nested deeper than 64"),
        ("option a = {", ":1: the file ends inside a declaration"),
    ],
)
def test_damaged_schemas_are_refused(proto: str, rule: str) -> None:
    with pytest.raises(FileError) as caught:
        read_fork(INPUT, proto)
    assert str(caught.value) == f"fork.proto{rule}"


def test_huge_schema_is_not_read() -> None:
    Path("deploy.prototxt").write_text(INPUT)
    with Path("fork.proto").open("wb") as file:
        file.truncate(3 << 30)
    with pytest.raises(FileError, match=r"^fork\.proto: the file has 3072 MiB; the limit is 16 MiB$"):
        read(Path("deploy.prototxt"), proto=Path("fork.proto"))


def test_comments_of_a_schema_may_contain_any_bytes() -> None:
    Path("deploy.prototxt").write_text(INPUT)
    Path("fork.proto").write_bytes(b"// \xb2\xe2 (GBK)\n" + FORK.encode())
    assert list(read(Path("deploy.prototxt"), proto=Path("fork.proto")).inputs) == ["data"]


def test_missing_schema_is_refused() -> None:
    Path("deploy.prototxt").write_text(INPUT)
    with pytest.raises(FileError, match=r"^nowhere\.proto: there is no such file$"):
        read(Path("deploy.prototxt"), proto=Path("nowhere.proto"))


@pytest.mark.parametrize("blobs", ["BlobProto", ".caffe.BlobProto"])
def test_binary_network_with_a_forks_field_numbers(blobs: str) -> None:
    params = message(200, integer(1, -1), message(2, message(2, b"\x04\x05")), integer(6, 9))
    data = string(1, "net") + message(
        100, string(1, "i"), string(2, "Input"), string(4, "x"), message(143, message(1, message(1, b"\x02")))
    )
    data += layer("w", string(3, "x"), string(4, "y"), params, blob([2], [1, 2]), type_="Warp")
    Path("net.caffemodel").write_bytes(data)
    Path("fork.proto").write_text(FORK.replace("repeated BlobProto", f"repeated {blobs}"))
    network = read(Path("net.caffemodel"), proto=Path("fork.proto"))
    (warp,) = network.nodes
    assert warp.params == {"warp_param": {"method": "NEAREST", "grid": {"size": [4, 5]}, "count": 9}}
    assert warp.blobs[0].tolist() == [1.0, 2.0]
    assert warp.place == "net.caffemodel: layer 'w' (Warp)"


def test_scalar_fields_of_a_binary_network() -> None:
    proto = FORK.replace(
        "optional Method method = 1 [default = CUBIC];",
        """extend LayerParameter { optional int32 level = 1002; }
        optional sint32 a = 20; optional sfixed32 b = 21; optional fixed64 c = 22; optional double d = 23;
        optional uint64 e = 24; optional uint32 f = 25; optional Other g = 26; repeated double h = 27;""",
    )
    params = message(
        200,
        *(integer(6, 1), integer(20, 3), varint(21 << 3 | 5) + struct.pack("<i", -7)),
        *(varint(22 << 3 | 1) + struct.pack("<Q", 8), varint(23 << 3 | 1) + struct.pack("<d", 0.5)),
        *(integer(24, 2**64 - 1), integer(25, 2**32 - 1), message(26, b"x"), doubles(27, [1, 2])),
        *(integer(9, -3), integer(3, 1), integer(3, 0), string(4, "a")),
    )
    Path("net.caffemodel").write_bytes(
        layer("i", string(4, "x"), type_="Input")
        + layer("w", string(3, "x"), string(4, "y"), params, type_="Warp")
    )
    Path("fork.proto").write_text(proto)
    assert read(Path("net.caffemodel"), proto=Path("fork.proto")).nodes[0].params == {
        "warp_param": {
            "count": 1,
            "a": -2,
            "b": -7,
            "c": 8,
            "d": 0.5,
            "e": 2**64 - 1,
            "f": 2**32 - 1,
            "h": [1.0, 2.0],
            "big": -3,
            "wrap": 0,
            "border": "a",
        }
    }


ADDITIONS = """
message LayerParameter { optional WarpParameter warp_param = 123; }
message WarpParameter {
  enum Way { UP = 0; DOWN = 1; }
  optional Way way = 1 [default = DOWN];
  optional int32 n = 2;
}
"""


def read_additions(text: str) -> Network:
    Path("more.proto").write_text(ADDITIONS)
    Path("deploy.prototxt").write_text(INPUT + text)
    return read(Path("deploy.prototxt"), proto=Path("more.proto"))


def test_schema_with_only_a_forks_additions() -> None:
    network = read_additions(
        "layer { name: 'w' type: 'Warp' bottom: 'data' top: 'w' warp_param { n: -3 } }"
        "layer { name: 'r' type: 'ReLU' bottom: 'w' top: 'r' relu_param { negative_slope: 0.5 } }"
        "layer { name: 'i' type: 'Interp' bottom: 'r' top: 'i' interp_param { height: 4 width: 4 } }"
        "layer { name: 'x' type: 'Else' bottom: 'i' top: 'x' else_param { a: 1 } }"
    )
    assert [n.params for n in network.nodes] == [
        {"warp_param": {"n": -3}},
        {"relu_param": {"negative_slope": 0.5}},
        {"interp_param": {"height": 4, "width": 4}},
        {"else_param": {"a": 1}},
    ]
    assert network.nodes[0].defaults["warp_param"] == {"way": "DOWN"}
    assert "warp_param" not in core().messages["LayerParameter"].fields


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        ("layer { type: 'Warp' warp_param { m: 1 } }", "WarpParameter of more.proto has no field 'm'"),
        ("layer { type: 'Warp' warp_param { way: SIDE } }", "'way' must be one of UP, DOWN, got SIDE"),
        ("layer { name: 'r' type: 'ReLU' relu_parm { } }", "has no field 'relu_parm'; did you mean 'relu_param'?"),
    ],
)
def test_schema_with_only_additions_checks_fields(text: str, rule: str) -> None:
    with pytest.raises(FileError, match=re.escape(rule)):
        read_additions(text)


DOCUMENT = """
message LayerParameter {
...
optional ReverseParameter reverse_param = 157;
...
}message ReverseParameter{
repeated int32 axis = 1;
}
message LayerParameter {
…
optional ReorgParameter reorg_param = 155;
}message ReorgParameter{
optional uint32 stride = 2 [default = 2];
optional bool reverse = 1 [default = false];
}
"""


def test_message_with_dots_may_be_declared_again() -> None:
    Path("document.proto").write_text(DOCUMENT)
    Path("deploy.prototxt").write_text(
        INPUT + "layer { name: 'r' type: 'Reverse' bottom: 'data' top: 'r' reverse_param { axis: 1 } }\n"
        "layer { name: 'o' type: 'Reorg' bottom: 'r' top: 'o' reorg_param { stride: 2 } }"
    )
    network = read(Path("deploy.prototxt"), proto=Path("document.proto"), dialect="ascend")
    assert [n.params for n in network.nodes] == [{"reverse_param": {"axis": [1]}}, {"reorg_param": {"stride": 2}}]
    assert network.fields["reorg_param"].number == 155
    with pytest.raises(FileError, match=r"document\.proto:2: message A is declared twice"):
        parse_proto("message A { } message B { ... } message B { }\nmessage A { ... }", "document.proto")


SEED = "seeds/001_0a356363651b6ba4.txt"


@needs_data(SEED)
def test_definitions_of_ascends_document() -> None:
    """All definitions of the document, in one file."""
    text = (REFERENCE / SEED).read_text()
    found = re.findall(r"message \w+ ?\{(?:[^{}]|\{[^{}]*\})*\}", text)
    assert len(found) == 18
    schema = parse_proto("\n".join(found), "document.proto")
    layer_fields = schema.messages["LayerParameter"].fields
    assert {n: f.number for n, f in layer_fields.items()} == {
        "reverse_param": 157, "upsample_param": 160, "norm_param": 206, "reorg_param": 155, "roi_align_param": 154,
        "shuffle_channel_param": 159, "yolo_param": 199, "prior_box_param": 203, "spatial_transform_param": 153,
    }  # fmt: skip
    assert schema.messages["ROIAlignParameter"].fields["sampling_ratio"].default == -1


def test_core_messages_have_caffes_field_numbers() -> None:
    schema = core()
    for name in ("NetParameter", "LayerParameter", "V1LayerParameter", "V0LayerParameter"):
        numbers = [f.number for f in schema.messages[name].fields.values()]
        assert len(numbers) == len(set(numbers)), name
    layer_fields = schema.messages["LayerParameter"].fields
    assert sorted(f.number for f in layer_fields.values()) == [*range(1, 12), *range(100, 149)]
    assert {n: layer_fields[n].number for n in ("convolution_param", "pooling_param", "clip_param")} == {
        "convolution_param": 106,
        "pooling_param": 121,
        "clip_param": 148,
    }


WORDS = st.sampled_from(
    [
        "message",
        "enum",
        "A",
        "{",
        "}",
        "optional",
        "repeated",
        "int32",
        "a",
        "=",
        "1",
        ";",
        "[",
        "]",
        "default",
        "1.5",
        "0x9",
        "09",
        "1e999",
        "9" * 30,
        '"\\x"',
        "inf",
        "service",
        "import",
        "oneof",
        "map",
        "<",
        ">",
        ",",
        "extend",
        "reserved",
        "-",
        "'x'",
        "/*",
        "*/",
        "//",
        "\n",
        "group",
        ".",
        "...",
    ]
)


@given(st.lists(WORDS, max_size=40).map(" ".join))
@settings(max_examples=400, deadline=None)
def test_random_input_never_crashes(text: str) -> None:
    try:
        parse_proto(text, "fork.proto")
    except AnyLayerError as error:
        assert str(error).startswith("fork.proto:")
