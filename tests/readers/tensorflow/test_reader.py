"""From graphs to networks: names, order, pruning, functions, values, and graphs that are refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import anylayer
from anylayer.errors import FileError, InputError, NetworkError
from anylayer.network import TensorType
from anylayer.readers import caffe, tensorflow
from tests.readers.tensorflow.files import (
    attr,
    calls,
    const,
    field,
    function,
    graph,
    library,
    node,
    placeholder,
    shape,
    varint,
)

X = placeholder("x", -1, 4, 4, 3)


@pytest.fixture
def read(tmp_path: Path) -> Any:
    def read(data: bytes | str, name: str = "graph.pb") -> Any:
        path = tmp_path / name
        path.write_bytes(data.encode() if isinstance(data, str) else data)
        assert tensorflow.match(path)
        assert not caffe.match(path)
        return anylayer.read(path)

    return read


def run(net: Any, **inputs: Any) -> Any:
    return net.compile("numpy")(inputs)


def test_dynamic_batch_becomes_one(read: Any) -> None:
    network = read(graph(X, node("y", "Relu", "x", T="float32"))).network
    assert network.inputs == {"x": TensorType((1, 4, 4, 3))}
    assert network.open == {"x": (None, 4, 4, 3)}
    assert network.layouts == {"x": "NHWC"}
    assert network.outputs == {"y": "y"}
    assert [n.params for n in network.nodes] == [{"attr": {"T": "float32"}}]


def test_other_dynamic_sizes_stay_unknown(read: Any) -> None:
    network = read(graph(placeholder("x", 1, -1, -1, 3), node("y", "Relu", "x"))).network
    assert network.inputs == {"x": None}
    assert network.open == {"x": (1, None, None, 3)}
    unknown = read(graph(node("x", "Placeholder", dtype="float32"), node("y", "Relu", "x"))).network
    assert unknown.inputs == {"x": None}
    assert unknown.open == {}


def test_inputs_with_open_sizes_keep_their_dtype(read: Any) -> None:
    network = read(graph(placeholder("x", -1, -1, dtype="int32"), node("y", "Neg", "x", T="int32"))).network
    assert network.inputs == {"x": None}
    assert network.input_dtype("x") == np.int32


def test_nodes_are_sorted_in_computing_order(read: Any) -> None:
    net = read(graph(node("c", "Neg", "b"), node("b", "Abs", "a"), node("a", "Relu", "x", "^c2"), X))
    assert [n.name for n in net.network.nodes] == ["a", "b", "c"]


def test_unused_operations_are_removed(read: Any) -> None:
    nodes = [X, const("k", np.float32(2)), node("y", "Mul", "x", "k"), const("unused", np.float32(1))]
    nodes += [node("save", "SaveV2", "x"), node("all", "NoOp", "^y"), node("check", "Assert", "y")]
    net = read(graph(*nodes, node("z", "Relu", "y")))
    assert [n.name for n in net.network.nodes] == ["k", "y", "z"]
    assert list(net.outputs) == ["z"]


def test_operation_with_several_outputs(read: Any) -> None:
    nodes = [X, const("axis", np.int32(3)), node("s", "Split", "axis", "x", num_split=3), node("y", "Relu", "s:2")]
    x = np.random.default_rng(0).standard_normal((1, 4, 4, 3)).astype(np.float32)
    assert np.array_equal(run(read(graph(*nodes)), x=x)["y"], np.maximum(x[..., 2:], 0))
    assert list(read(graph(*nodes[:3])).outputs) == ["s", "s:1", "s:2"]


def test_functions_are_inlined(read: Any) -> None:
    inner = function("inner", ["a"], {"r": "n:y:0"}, node("n", "Neg", "a"))
    outer = function(
        "outer",
        ["a", "b"],
        {"sum": "s:z:0", "parts": "p:output:1"},
        node("i", "PartitionedCall", "a", f=calls("inner")),
        node("s", "AddV2", "i:output:0", "b"),
        const("axis", np.int32(0)),
        node("p", "Split", "axis:output:0", "b", num_split=2),
    )
    nodes = [
        placeholder("x", 2),
        node("call", "StatefulPartitionedCall", "x", "x", f=calls("outer")),
        node("direct", "inner", "call:1"),
    ]
    net = read(graph(*nodes, library=library(inner, outer)))
    got = run(net, x=np.float32([3, 5]))
    assert list(got) == ["direct"]
    assert got["direct"].tolist() == [-5]
    assert [n.name for n in net.network.nodes] == ["call/axis", "call/p", "direct/n"]
    both = read(graph(*nodes[:2], library=library(inner, outer)))
    assert {k: v.tolist() for k, v in run(both, x=np.float32([3, 5])).items()} == {"call": [0, 0], "call:1": [5]}


def test_results_of_a_called_function_are_read_by_name(read: Any) -> None:
    two = function("two", ["x"], {"a": "x", "b": "n:y:0"}, node("n", "Neg", "x"))
    outer = function("outer", ["x"], {"r": "t:b:0"}, node("t", "two", "x"))
    net = read(graph(placeholder("x", 2), node("y", "outer", "x"), library=library(two, outer)))
    assert run(net, x=np.float32([3, 5]))["y"].tolist() == [-3, -5]
    wrong = function("outer", ["x"], {"r": "t:c:0"}, node("t", "two", "x"))
    with pytest.raises(NetworkError, match=r"'t' \(two\) has no result 'c'; it has: a, b"):
        read(graph(placeholder("x", 2), node("y", "outer", "x"), library=library(two, wrong)))


def test_dropout_without_its_function_returns_the_input(read: Any) -> None:
    nodes = [placeholder("x", 2), node("d", "Dropout", "x"), node("y", "Neg", "d")]
    net = read(graph(*nodes))
    assert run(net, x=np.float32([3, 5]))["y"].tolist() == [-3, -5]
    assert "lacks the function 'Dropout'" in str(net.inspect())
    scaling = function("Dropout", ["x"], {"y": "n:z:0"}, node("n", "AddV2", "x", "x"))
    assert run(read(graph(*nodes, library=library(scaling))), x=np.float32([3, 5]))["y"].tolist() == [-6, -10]


class Parts(anylayer.Layer):
    """An operation of a user with results `head` (N outputs), `rest` and `sign`."""

    def forward(self, x: Any) -> Any:
        return [x * 10, x * 20, x + 1, -x][: self.outputs]


def meta_graph(definition: bytes) -> bytes:
    """Return a SavedModel that declares the results of the operation Parts, with output "y"."""
    results = [("head", field(5, "N")), ("rest", b""), ("sign", b"")]
    op = field(1, "Parts") + b"".join(field(3, field(1, name) + count) for name, count in results)
    info = field(2, field(1, op)) + field(4, "serve")
    entry = field(1, "y") + field(2, field(1, "y:0"))
    signature = field(1, "serving_default") + field(2, field(2, entry))
    return field(1, 1) + field(2, field(1, info) + field(2, definition) + field(5, signature))


@pytest.mark.parametrize(("result", "want"), [("head:1", [60, 100]), ("rest:0", [4, 6]), ("sign:0", [-3, -5])])
def test_results_of_a_users_operation_are_those_that_the_file_declares(
    result: str, want: list[float], tmp_path: Path
) -> None:
    outer = function("outer", ["x"], {"r": f"p:{result}"}, node("p", "Parts", "x", N=2))
    definition = graph(placeholder("x", 2), node("y", "outer", "x"), library=library(outer))
    (tmp_path / "saved_model.pb").write_bytes(meta_graph(definition))
    net = anylayer.read(tmp_path, layers=[("Parts", Parts)])
    assert run(net, x=np.float32([3, 5]))["y"].tolist() == want


def test_results_that_the_file_does_not_declare_are_refused(tmp_path: Path) -> None:
    for attributes, wanted in (({}, None), ({"_output_shapes": field(1, field(7, shape(2)))}, [30, 50])):
        outer = function("outer", ["x"], {"r": "p:sign:0"}, node("p", "Parts", "x", **attributes))
        definition = graph(placeholder("x", 2), node("y", "outer", "x"), library=library(outer))
        (tmp_path / "graph.pb").write_bytes(definition)
        if wanted is None:
            text = (
                r"graph.pb: layer 'y' \(outer\): a function reads results of 'p' \(Parts\) by name, and the file"
            )
            with pytest.raises(NetworkError, match=text):
                anylayer.read(tmp_path / "graph.pb", layers=[("Parts", Parts)])
            continue
        net = anylayer.read(tmp_path / "graph.pb", layers=[("Parts", Parts)])  # one output is stated
        assert run(net, x=np.float32([3, 5]))["y"].tolist() == wanted


@pytest.mark.parametrize(
    ("value", "want"),
    [
        (field(1, 1) + field(2, shape(2, 2)) + field(5, np.float32([1, 2, 3, 4]).tobytes()), [[1, 2], [3, 4]]),
        (field(1, 1) + field(2, shape(3)) + field(5, np.float32([7]).tobytes()), [7, 7, 7]),
        (field(1, 1) + field(2, shape(4)) + field(5, np.float32([7, 8]).tobytes()), [7, 8, 8, 8]),
        (field(1, 1) + field(2, shape(2)) + (varint(5 << 3 | 5) + np.float32(3).tobytes()) * 2, [3, 3]),
        (field(1, 1) + field(2, shape(2)), [0, 0]),
        (field(1, 14) + field(2, shape(2)) + field(4, b"\x80\x3f\x00\xc0"), [1, -2]),
    ],
    ids=["all values", "one value repeats", "the last value repeats", "unpacked", "no values", "bfloat16"],
)
def test_float_constants_are_read(read: Any, value: bytes, want: Any) -> None:
    net = read(graph(node("k", "Const", value=field(8, value), dtype="float32"), node("y", "Identity", "k")))
    got = run(net)["y"]
    assert got.dtype == np.float32
    assert got.tolist() == want


@pytest.mark.parametrize(
    ("value", "dtype", "want"),
    [
        (field(1, 3) + field(2, shape(2)) + field(7, varint(-5) + varint(300)), "int32", [-5, 300]),
        (field(1, 9) + field(2, shape(1)) + field(10, varint(-1)), "int64", [-1]),
        (field(1, 10) + field(2, shape(2)) + field(11, b"\x01\x00"), "bool", [True, False]),
        (field(1, 19) + field(2, shape(1)) + field(13, varint(0x3C00)), "float16", [1.0]),
        (field(1, 4) + field(2, shape(2)) + field(4, b"\x01\xff"), "uint8", [1, 255]),
    ],
)
def test_constants_of_other_dtypes(read: Any, value: bytes, dtype: str, want: Any) -> None:
    net = read(graph(node("k", "Const", value=field(8, value), dtype="float32"), node("y", "Identity", "k")))
    got = run(net)["y"]
    assert got.dtype == dtype
    assert got.tolist() == want


TEXT = r"""
node { name: "x" op: "Placeholder" attr { key: "dtype" value { type: DT_FLOAT } }
       attr { key: "shape" value { shape { dim { size: -1 } dim { size: 2 } } } } }
node { name: "input" op: "Const" attr { key: "value" value { tensor {
       dtype: DT_FLOAT tensor_shape { dim { size: 2 } } tensor_content: "\000\000\200?\000\000\000\300" } } } }
node { name: "i" op: "Const" attr { key: "value" value { tensor {
       dtype: DT_INT32 tensor_shape { dim { size: 1 } } int_val: -1 } } } }
node { name: "m" op: "Mul" input: "x" input: "input" attr { key: "T" value { type: DT_FLOAT } } }
node { name: "y" op: "Sum" input: "m" input: "i" attr { key: "keep_dims" value { b: true } } }
library { }
versions { producer: 21 }
"""


def test_graph_in_text_format_is_read(read: Any) -> None:
    net = read(TEXT, "graph.pbtxt")
    assert run(net, x=np.float32([[3, 4]]))["y"].tolist() == [[-5]]
    assert net.network.nodes[0].place.endswith("graph.pbtxt:4: layer 'input' (Const)")


def test_text_format_is_recognized_after_other_fields(read: Any) -> None:
    assert list(read('# a comment\nversions { producer: 1 }\ninput: "x"\n' + TEXT).outputs) == ["y"]


PHASE = [
    X,
    const("no", np.bool_(False)),
    node("phase", "PlaceholderWithDefault", "no", dtype="bool"),
    node("pred", "Identity", "phase"),
    node("s", "Switch", "x", "pred"),
    node("train", "Neg", "s:1"),
    node("serve", "Abs", "s"),
    node("m", "Merge", "serve", "train", N=2),
    node("y", "Relu", "m"),
]


def test_branch_with_constant_condition_is_taken(read: Any) -> None:
    net = read(graph(*PHASE))
    assert [n.name for n in net.network.nodes] == ["serve", "y"]
    x = np.random.default_rng(0).standard_normal((1, 4, 4, 3)).astype(np.float32)
    assert np.array_equal(run(net, x=x)["y"], np.abs(x))
    other = [const("no", np.bool_(True)) if n == PHASE[1] else n for n in PHASE]
    assert [n.name for n in read(graph(*other)).network.nodes] == ["train", "y"]


def test_switch_with_constant_condition_needs_no_merge(read: Any) -> None:
    net = read(graph(*PHASE[:5], node("y", "Abs", "s")))
    assert [n.name for n in net.network.nodes] == ["y"]
    other = [*PHASE[:5], node("y", "Abs", "s:1")]
    with pytest.raises(NetworkError, match=r"1 operations of control flow are not supported: 's' \(Switch\)"):
        read(graph(*other))


def test_switch_with_constant_data_becomes_the_constant(read: Any) -> None:
    """In batch normalization of TF-Slim, cut for inference, the statistics pass a Switch on the training phase."""
    nodes = [X, placeholder("phase", dtype="bool"), const("mean", np.float32([1, 2, 3]))]
    nodes += [node("kept", "Identity", "mean"), node("s", "Switch", "kept", "phase")]
    net = read(graph(*nodes, node("y", "Sub", "x", "s")))
    x = np.zeros((1, 4, 4, 3), np.float32)
    assert list(net.inputs) == ["x"]
    assert run(net, x=x)["y"][0, 0, 0].tolist() == [-1, -2, -3]
    with pytest.raises(NetworkError, match="operations of control flow"):
        read(graph(*nodes, node("a", "Sub", "x", "s"), node("y", "Sub", "a", "s:1")))


LOOP = [X, node("e", "Enter", "x"), node("m", "Merge", "e", "n"), node("n", "NextIteration", "m")]
REFUSED = {
    "a cycle": (
        [X, node("a", "AddV2", "x", "b"), node("b", "Neg", "a"), node("y", "Relu", "b")],
        r"the operations depend on each other in a cycle: 'b' -> 'a' -> 'b'",
    ),
    "a loop": (
        [*LOOP, node("y", "Exit", "m")],
        r"4 operations of control flow are not supported: 'y' \(Exit\), 'm' \(Merge\), 'e' \(Enter\), 'n' \(",
    ),
    "a branch": (
        [X, placeholder("p", dtype="bool"), node("s", "Switch", "x", "p"), node("y", "Relu", "s:1")],
        r"1 operations of control flow are not supported: 's' \(Switch\)",
    ),
    "quantized": (
        [X, node("q", "QuantizeV2", "x"), node("y", "Dequantize", "q")],
        r"2 quantized operations are not supported: 'q' \(QuantizeV2\), 'y' \(Dequantize\)\. Read the float32",
    ),
    "a missing input": (
        [X, node("y", "Relu", "xx")],
        r"layer 'y' \(Relu\) reads 'xx': there is no operation 'xx'; did",
    ),
    "a name twice": ([X, X, node("y", "Relu", "x")], "two operations are named 'x'"),
    "no output": ([X, const("k", np.float32(1))], "the graph has no output"),
    "strings": (
        [placeholder("s", dtype="string"), node("y", "Relu", "s")],
        r"layer 's' \(Placeholder\): inputs of type string are not supported",
    ),
    "a constant of strings": (
        [node("s", "Const", value=field(8, field(1, 7) + field(8, "hi"))), node("y", "Identity", "s")],
        r"layer 's' \(Const\): values of type string are not supported",
    ),
    "too few bytes": (
        [
            node("k", "Const", value=field(8, field(1, 1) + field(2, shape(9)) + field(4, bytes(8)))),
            node("y", "Neg", "k"),
        ],
        r"layer 'k' \(Const\): has shape \(9,\) of float32, which is 36 bytes, but 8 are stored",
    ),
    "too many values": (
        [
            node("k", "Const", value=field(8, field(1, 1) + field(2, shape(1)) + field(5, bytes(8)))),
            node("y", "Neg", "k"),
        ],
        r"has shape \(1,\), which is 1 value, but 2 are stored",
    ),
    "values that are only claimed": (
        [
            node("k", "Const", value=field(8, field(1, 1) + field(2, shape(1 << 40)) + field(5, bytes(8)))),
            node("y", "Neg", "k"),
        ],
        r"claims 1099511627776 values, but 2 are stored",
    ),
    "no values for a large shape": (
        [node("k", "Const", value=field(8, field(1, 1) + field(2, shape(1 << 61)))), node("y", "Neg", "k")],
        "claims 2305843009213693952 values, but 0 are stored",
    ),
    "a dynamic shape": (
        [node("k", "Const", value=field(8, field(1, 1) + field(2, shape(-1)))), node("y", "Neg", "k")],
        "stored values need a static shape",
    ),
    "no value": ([node("k", "Const", dtype="float32"), node("y", "Neg", "k")], "the constant has no value"),
    "a missing function": (
        [X, node("y", "PartitionedCall", "x", f=calls("g"))],
        r"layer 'y' \(PartitionedCall\): it calls function 'g', which is missing in the graph",
    ),
    "too many outputs": (
        [X, const("a", np.int32(0)), node("y", "Split", "a", "x", num_split=1 << 40)],
        r"layer 'y' \(Split\): the number of its outputs is 1099511627776, expected 1 to 10000",
    ),
}


@pytest.mark.parametrize("nodes, text", REFUSED.values(), ids=REFUSED)
def test_unsupported_graph_is_refused(nodes: list[bytes], text: str, read: Any) -> None:
    with pytest.raises((NetworkError, FileError), match=text) as caught:
        run(read(graph(*nodes)))
    assert "graph.pb: " in str(caught.value)


FUNCTIONS = {
    "calls itself": (
        [function("f", ["a"], {"r": "n:0"}, node("n", "f", "a"))],
        "function calls are nested deeper than 64",
    ),
    "too many": (
        [
            *(
                function(
                    f"f{i}", ["a"], {"r": "p:0"}, node("n", f"f{i + 1}", "a"), node("p", f"f{i + 1}", "n:r:0")
                )
                for i in range(30)
            ),
            function("f30", ["a"], {"r": "n:0"}, node("n", "Neg", "a")),
        ],
        "has more than 50000 operations",
    ),
    "arguments": ([function("f", ["a", "b"], {"r": "a"})], "function 'f' takes 2 arguments, got 1"),
    "no result": (
        [field(1, field(1, "f") + field(2, field(1, "a")) + field(3, field(1, "r")))],
        "function 'f' does not define its result 'r'",
    ),
}


@pytest.mark.parametrize("functions, text", FUNCTIONS.values(), ids=FUNCTIONS)
def test_damaged_functions_are_refused(functions: list[bytes], text: str, read: Any) -> None:
    name = "f0" if len(functions) > 1 else "f"
    with pytest.raises(NetworkError, match=text):
        read(graph(X, node("y", name, "x"), library=library(*functions)))


def test_attributes_of_all_kinds(read: Any) -> None:
    attrs = {"s": "hi", "i": -3, "f": 0.5, "b": True, "t": "int32", "l": [1, -2], "sh": field(7, shape(2, -1))}
    attrs |= {"n": field(7, field(3, 1)), "k": field(8, field(1, 1) + field(2, shape(1))), "g": calls("g")}
    attrs |= {
        "tl": field(1, field(6, varint(1) + varint(3))),
        "e": field(1, b""),
        "fl": field(1, field(4, bytes(4))),
    }
    params = read(graph(X, node("y", "Mine", "x", **attrs))).network.nodes[0].params["attr"]
    k = params.pop("k")
    assert k.tolist() == [0.0]
    assert params == {
        "s": "hi",
        "i": -3,
        "f": 0.5,
        "b": True,
        "t": "int32",
        "l": [1, -2],
        "sh": [2, None],
        "g": "g",
        "tl": ["float32", "int32"],
        "e": [],
        "fl": [0.0],
    }


def test_truncated_graph_is_refused(tmp_path: Path) -> None:
    data = graph(X, node("y", "Relu", "x", T="float32"))
    for stop in range(len(data)):
        (tmp_path / "graph.pb").write_bytes(data[:stop])
        with pytest.raises((FileError, NetworkError), match=r"graph\.pb"):
            anylayer.read(tmp_path / "graph.pb")


def test_options_and_weights_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "graph.pb"
    path.write_bytes(graph(X, node("y", "Relu", "x")))
    with pytest.raises(InputError, match=r"dialect: a TensorFlow graph .* has no such option; its options: none"):
        anylayer.read(path, dialect="ssd")
    with pytest.raises(FileError, match="the graph contains its weights; read it without the file w"):
        anylayer.read(path, "w")


def test_wrong_wire_type_of_an_attribute_is_refused(read: Any) -> None:
    bad = field(1, "y") + field(2, "Relu") + field(5, field(1, "T") + field(2, field(3, attr("float32"))))
    with pytest.raises(FileError, match=r"field 3 \('i'\) at byte \d+ has wire type 2, expected 0"):
        read(graph(X, bad))
