"""ONNX models: values, constants, functions, external weights, and models that are refused."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import anylayer
from anylayer.compile.plan import make_plan
from anylayer.errors import AnyLayerError, FileError, LayerError, NetworkError, UnknownLayers
from anylayer.network import TensorType
from tests.readers.onnx.files import model, save, value

node = helper.make_node
X = value("x", [2, 3])
SAMPLE = np.arange(6, dtype=np.float32).reshape(2, 3)


def run(path: Path, feed: Any = SAMPLE, layers: Any = ()) -> list[np.ndarray]:
    """Return the outputs. Fail unless NumPy and ONNX Runtime agree."""
    net = anylayer.read(path, layers=layers)
    want = net.compile("numpy")(feed)
    got = net.compile("onnxruntime")(feed)
    for name, array in want.items():
        np.testing.assert_allclose(got[name], array, rtol=1e-5, atol=1e-6)
    return list(want.values())


# ------------------------------------------------------------------------------------------- nodes and constants


def test_nodes_values_and_constants() -> None:
    path = save(model([node("Add", ["x", "w"], ["y"], name="sum")], [X], ["y"], {"w": np.float32([1, 2, 3])}))
    network = anylayer.read(path).network
    assert [(n.name, n.type, n.inputs, n.outputs) for n in network.nodes] == [
        ("w", "Constant", [], ["w"]),
        ("sum", "Add", ["x", "w"], ["y"]),
    ]
    assert network.inputs == {"x": TensorType.of((2, 3))} and network.outputs == {"y": "y"}
    assert network.nodes[1].place == "net.onnx: layer 'sum' (Add)" and network.nodes[1].version == 18
    np.testing.assert_array_equal(run(path)[0], SAMPLE + np.float32([1, 2, 3]))


def test_dynamic_batch_becomes_one() -> None:
    network = anylayer.read(save(model([node("Relu", ["x"], ["y"])], [value("x", ["n", 3, 4])], ["y"]))).network
    assert network.inputs["x"] == TensorType.of((1, 3, 4)) and network.open == {"x": (None, 3, 4)}


def test_other_dynamic_sizes_need_a_shape() -> None:
    path = save(model([node("Relu", ["x"], ["y"])], [value("x", ["n", "c"], np.float64)], ["y"]))
    net = anylayer.read(path)
    assert net.network.inputs == {"x": None} and net.network.open == {"x": (None, None)}
    with pytest.raises(AnyLayerError, match=r"the shape of input 'x' is \[\?, \?\] in the file"):
        make_plan(net.network, net.definitions, net.network.inputs, net.network.outputs)
    assert net.compile("onnxruntime")(np.ones((2, 2)))["y"].dtype == np.float64


def test_nodes_are_sorted_in_computing_order() -> None:
    path = save(model([node("Neg", ["a"], ["y"]), node("Abs", ["x"], ["a"])], [X], ["y"]))
    assert [n.type for n in anylayer.read(path).network.nodes] == ["Abs", "Neg"]


def test_constant_nodes_become_arrays() -> None:
    nodes = [
        node("Constant", [], ["a"], value=numpy_helper.from_array(np.float32([1, 2, 3]))),
        node("Constant", [], ["b"], value_float=2.0),
        node("Constant", [], ["c"], value_ints=[1, 0]),
        node("Mul", ["x", "a"], ["p"]),
        node("Add", ["p", "b"], ["q"]),
        node("Transpose", ["q"], ["y"], perm=[1, 0]),
        node("Gather", ["y", "c"], ["z"]),
    ]
    want = (SAMPLE * np.float32([1, 2, 3]) + 2).T[[1, 0]]
    np.testing.assert_array_equal(run(save(model(nodes, [X], ["z"])))[0], want)


def test_sparse_array_becomes_dense() -> None:
    made = model([node("Add", ["x", "w"], ["y"])], [X], ["y"])
    values = numpy_helper.from_array(np.float32([5, 7]), "w")
    indices = numpy_helper.from_array(np.int64([1, 2]), "i")
    made.graph.sparse_initializer.append(helper.make_sparse_tensor(values, indices, [3]))
    np.testing.assert_array_equal(run(save(made))[0], SAMPLE + np.float32([0, 5, 7]))


def test_omitted_output_of_a_node() -> None:
    nodes = [node("MaxPool", ["x"], ["", "i"], kernel_shape=[2], strides=[1]), node("Neg", ["i"], ["y"])]
    got = run(save(model(nodes, [value("x", [1, 1, 4])], ["y"])), np.float32([[[1, 3, 2, 0]]]))
    assert got[0].tolist() == [[[-1, -1, -2]]]


# ---------------------------------------------------------------------------------------------------- functions


def scaled() -> onnx.FunctionProto:
    """Return the function Scaled(x, w) = x * w + offset. Its attribute offset has a default."""
    shift = node("Constant", [], ["o"])
    shift.attribute.append(onnx.AttributeProto(name="value_float", type=1, ref_attr_name="offset"))
    return helper.make_function(
        "my.own",
        "Scaled",
        ["x", "w"],
        ["y"],
        [shift, node("Mul", ["x", "w"], ["t"]), node("Add", ["t", "o"], ["y"])],
        [helper.make_opsetid("", 18)],
        attribute_protos=[helper.make_attribute("offset", 1.0)],
    )


def calls(**attrs: Any) -> Path:
    nodes = [
        node("Scaled", ["x", "w"], ["a"], domain="my.own", name="first"),
        node("Scaled", ["a", "w"], ["y"], domain="my.own", **attrs),
    ]
    return save(model(nodes, [X], ["y"], {"w": np.float32(2)}, functions=[scaled()], domains=["my.own"]))


def test_functions_of_the_model_are_inlined() -> None:
    path = calls(offset=10.0)
    np.testing.assert_array_equal(run(path)[0], (SAMPLE * 2 + 1) * 2 + 10)
    assert "first/t" in [n for node_ in anylayer.read(path).network.nodes for n in node_.outputs]


class Scaled:
    """A user's class for the function, with OpenCV's interface."""

    def __init__(self, params: dict[str, Any], blobs: tuple[np.ndarray, ...]) -> None:
        self.offset, self.w = params.get("offset", 1.0), blobs[0]

    def forward(self, inputs: list[Any]) -> list[Any]:
        return [inputs[0] * self.w + np.float32(self.offset)]


@pytest.mark.parametrize("name", ["Scaled", "my.own.Scaled"])
def test_users_class_replaces_a_function(name: str) -> None:
    net = anylayer.read(calls(offset=10.0), layers=[(name, Scaled)])
    assert [n.type for n in net.network.nodes] == [name, name]
    np.testing.assert_array_equal(net.compile("onnxruntime")(SAMPLE)["y"], (SAMPLE * 2 + 1) * 2 + 10)


def test_recursive_function_is_refused() -> None:
    own = helper.make_function(
        "d", "F", ["x"], ["y"], [node("F", ["x"], ["y"], domain="d")], [helper.make_opsetid("d", 1)]
    )
    path = save(model([node("F", ["x"], ["y"], domain="d")], [X], ["y"], functions=[own], domains=["d"]))
    with pytest.raises(
        NetworkError, match="function calls are nested deeper than 32; does the function call itself"
    ):
        anylayer.read(path)


def test_nodes_of_functions_are_counted() -> None:
    functions = [
        helper.make_function(
            "d",
            f"F{i}",
            ["x"],
            ["y"],
            [node(f"F{i + 1}", ["x"], ["a"], domain="d"), node(f"F{i + 1}", ["a"], ["y"], domain="d")],
            [helper.make_opsetid("d", 1)],
        )
        for i in range(25)
    ]
    path = save(model([node("F0", ["x"], ["y"], domain="d")], [X], ["y"], functions=functions, domains=["d"]))
    with pytest.raises(
        NetworkError, match="the model has more than 50000 nodes, including those of inlined functions"
    ):
        anylayer.read(path)


# --------------------------------------------------------------------------------------------- unknown operators


def unknown() -> Path:
    nodes = [node("Fancy", ["x", "w"], ["y"], domain="com.example", mode="up", k=3, scales=[0.5, 2.0])]
    return save(model(nodes, [X], ["y"], {"w": np.float32([1, 2, 3])}, domains=["com.example"]))


def test_unknown_operators_become_layers() -> None:
    net = anylayer.read(unknown())
    (fancy,) = net.network.nodes
    assert (fancy.type, fancy.domain, fancy.inputs) == ("Fancy", "com.example", ["x"])
    assert fancy.params == {"attribute": {"mode": "up", "k": 3, "scales": [0.5, 2.0]}}
    assert fancy.blobs[0].tolist() == [1, 2, 3]
    with pytest.raises(UnknownLayers, match=r"1 unknown layer type: 'Fancy' \(layer 'Fancy_0'\)"):
        net.compile("numpy")


def test_users_class_gets_attributes_and_constants() -> None:
    class Fancy:
        def __init__(self, params: dict[str, Any], blobs: tuple[np.ndarray, ...]) -> None:
            assert (params["mode"], params["k"], params["scales"]) == ("up", 3, (0.5, 2.0))
            self.w = blobs[0]

        def forward(self, inputs: list[Any]) -> list[Any]:
            return [inputs[0] * self.w]

    np.testing.assert_array_equal(run(unknown(), layers=[("Fancy", Fancy)])[0], SAMPLE * np.float32([1, 2, 3]))


def test_operator_of_another_domain_keeps_its_domain() -> None:
    path = save(
        model([node("Attention", ["x"], ["y"], domain="com.microsoft")], [X], ["y"], domains=["com.microsoft"])
    )
    assert anylayer.read(path).network.nodes[0].type == "com.microsoft.Attention"


def test_users_class_replaces_an_operator_of_onnx() -> None:
    class Double:
        def __init__(self, params: Any, blobs: Any) -> None: ...

        def forward(self, inputs: list[Any]) -> list[Any]:
            return [inputs[0] * np.float32(2)]

    path = save(model([node("Relu", ["x"], ["y"])], [X], ["y"]))
    np.testing.assert_array_equal(run(path, -SAMPLE, layers=[("Relu", Double)])[0], -2 * SAMPLE)


# ---------------------------------------------------------------------------------------------- external weights


def external(location: str, **entries: str) -> Path:
    """Write a model whose weights, six floats, are in another file."""
    made = model([node("Add", ["x", "w"], ["y"])], [X], ["y"])
    tensor = TensorProto(name="w", data_type=TensorProto.FLOAT, dims=[2, 3])
    tensor.data_location = TensorProto.EXTERNAL
    for key, text in {"location": location, **entries}.items():
        tensor.external_data.add(key=key, value=text)
    made.graph.initializer.append(tensor)
    return save(made)


def test_external_weights_are_mapped() -> None:
    Path("sub").mkdir()
    Path("sub/w.bin").write_bytes(b"skip" + SAMPLE.tobytes())
    path = external("sub/w.bin", offset="4", length="24")
    np.testing.assert_array_equal(run(path)[0], 2 * SAMPLE)
    blob = anylayer.read(path).network.nodes[0].blobs[0]
    assert not blob.flags.owndata and not blob.flags.writeable


@pytest.mark.parametrize(
    ("location", "message"),
    [
        ("../w.bin", r"its external data '\.\./w\.bin' must be a path within the model's folder"),
        ("/etc/passwd", "must be a path within the model's folder"),
        ("C:\\w.bin", "must be a path within the model's folder"),
        ("sub\\..\\..\\w.bin", "must be a path within the model's folder"),
        ("none.bin", "its external data 'none.bin' is not in the model's folder"),
        ("", "its external data names no file"),
    ],
)
def test_weights_outside_of_the_folder_are_refused(location: str, message: str) -> None:
    with pytest.raises(FileError, match=message):
        anylayer.read(external(location))


def test_link_out_of_the_folder_is_refused() -> None:
    Path("inside").mkdir()
    Path("secret").write_bytes(SAMPLE.tobytes())
    os.chdir("inside")
    Path("w.bin").symlink_to("../secret")
    with pytest.raises(FileError, match="is a link that leads out of the model's folder"):
        anylayer.read(external("w.bin"))


@pytest.mark.parametrize(
    ("entries", "message"),
    [
        ({"offset": "4"}, "'w.bin' has 24 bytes, but 28 are needed"),
        ({"length": "8"}, r"float\[2, 3\] needs 24 bytes, but the file has 8"),
        ({"offset": "-4"}, "the offset of its external data must be an integer, got '-4'"),
        ({"length": "9" * 30}, "the length of its external data must be an integer, got '999"),
    ],
)
def test_positions_of_external_weights_are_checked(entries: dict[str, str], message: str) -> None:
    Path("w.bin").write_bytes(SAMPLE.tobytes())
    with pytest.raises(FileError, match=message):
        anylayer.read(external("w.bin", **entries))


def test_large_weights_stay_in_the_mapped_file() -> None:
    path = save(
        model([node("Add", ["x", "w"], ["y"])], [value("x", [64, 64])], ["y"], {"w": np.ones((64, 64), "f4")})
    )
    blob = anylayer.read(path).network.nodes[0].blobs[0]
    assert not blob.flags.owndata and blob.tolist() == np.ones((64, 64)).tolist()


# ------------------------------------------------------------------------------------------------- refused models


def claiming(dims: list[int], raw: bytes = b"\0" * 24, kind: int = TensorProto.FLOAT) -> Path:
    made = model([node("Add", ["x", "w"], ["y"])], [X], ["y"])
    made.graph.initializer.append(TensorProto(name="w", data_type=kind, dims=dims, raw_data=raw))
    return save(made)


@pytest.mark.parametrize(
    ("path", "message"),
    [
        (
            lambda: claiming([1 << 40, 1 << 20]),
            r"array 'w': float\[1099511627776, 1048576\] needs \d+ bytes, but the file has 24",
        ),
        (lambda: claiming([-1, 3]), r"has shape \(-1, 3\): a size is negative"),
        (lambda: claiming([1] * 40), "has 40 axes; the limit is 32"),
        (lambda: claiming([6], b"\0" * 5000), r"float\[6\] needs 24 bytes, but the file has 5000"),
        (lambda: claiming([6], kind=77), "has data type 77, which the installed onnx package does not know"),
        (lambda: claiming([6], kind=TensorProto.STRING), "has string values, but only numbers are supported"),
    ],
)
def test_wrong_claims_of_arrays_are_refused(path: Any, message: str) -> None:
    with pytest.raises(FileError, match=message):
        anylayer.read(path())


@pytest.mark.parametrize(
    ("nodes", "message"),
    [
        ([node("Add", ["x", "z"], ["y"])], "layer 'Add_0' .Add.: input 'z' is produced by no node"),
        (
            [node("Neg", ["b"], ["y"]), node("Neg", ["y"], ["b"])],
            "layers 'Neg_0', 'Neg_1' depend on each other in a cycle",
        ),
        ([node("Neg", ["x"], ["y"]), node("Abs", ["x"], ["y"])], "value 'y' is produced twice"),
        ([node("Neg", ["x"], ["z"])], "output 'y' is produced by no node"),
    ],
)
def test_inconsistent_network_is_refused(nodes: Any, message: str) -> None:
    with pytest.raises(NetworkError, match=message):
        anylayer.read(save(model(nodes, [X], ["y"])))


@pytest.mark.parametrize(
    ("made", "message"),
    [
        (node("Relu", ["x", "x"], ["y"]), r"takes 1 input, got 2"),
        (node("Relu", ["x"], ["y"], slope=0.1), "Relu has no attribute 'slope' in operator set 18; it has: none"),
        (node("Concat", ["x", "x"], ["y"]), "attribute 'axis' is missing"),
        (node("LeakyRelu", ["x"], ["y"], alpha="much"), "parameter 'alpha': must be a number, got 'much'"),
        (node("Conv", ["x", "x"], ["y"]), r"needs an input \(N, C, ...\), got shape \(2, 3\)"),
    ],
)
def test_operators_are_checked_against_their_schemas(made: Any, message: str) -> None:
    with pytest.raises(LayerError, match=message):
        anylayer.read(save(model([made], [X], ["y"]))).compile("onnxruntime")


def test_operator_set_newer_than_the_onnx_package_is_refused() -> None:
    with pytest.raises(
        NetworkError, match=r"its operator set is 99, but the installed onnx package supports 1 to \d+"
    ):
        anylayer.read(save(model([node("Relu", ["x"], ["y"])], [X], ["y"], opset=99)))


def test_truncated_file_is_refused() -> None:
    whole = save(
        model([node("Add", ["x", "w"], ["y"])], [X], ["y"], {"w": np.ones(3000, np.float32)})
    ).read_bytes()
    for size in (3, 40, len(whole) // 2, len(whole) - 3):
        Path("cut.onnx").write_bytes(whole[:size])
        with pytest.raises(AnyLayerError, match=r"cut\.onnx: .*(ONNX model|nothing anylayer knows)"):
            anylayer.read("cut.onnx")


def test_another_weights_file_is_refused() -> None:
    path = save(model([node("Relu", ["x"], ["y"])], [X], ["y"]))
    with pytest.raises(FileError, match="an ONNX model names its weights file itself"):
        anylayer.read(path, "weights.bin")


def test_damaged_files_never_crash() -> None:
    """A file with randomly changed bytes is read, or refused with an AnyLayerError."""
    whole = calls(offset=2.0).read_bytes()
    noise = np.random.default_rng(7)
    for _ in range(250):
        data = bytearray(whole)
        for _ in range(noise.integers(1, 5)):
            data[noise.integers(len(data))] = noise.integers(256)
        Path("bad.onnx").write_bytes(data)
        with contextlib.suppress(AnyLayerError):
            anylayer.read("bad.onnx").inspect()


# ---------------------------------------------------------------------------------------------------- value_info


def declaring(shape: Any = (1, 2, 3)) -> Path:
    """Write a model whose first operator is unknown, and whose value_info states the shape of its output."""
    made = model(
        [node("Twice", ["x"], ["a"], domain="my", gain=-0.3, more=[0.1, 2.5]), node("Relu", ["a"], ["y"])],
        [value("x", ["n", 3])],
        ["y"],
        domains=["my"],
    )
    made.graph.value_info.append(value("a", shape))
    made.graph.value_info.append(helper.make_tensor_value_info("s", TensorProto.STRING, [1]))
    return save(made)


def test_value_info_gives_the_shapes_after_an_unknown_operator() -> None:
    net = anylayer.read(declaring(["n", 2, 3]))
    report = net.inspect()
    assert [(n.where, [str(t) for _, t in n.outputs]) for n in report.nodes] == [
        ("unknown", ["float32[1, 2, 3]"]),
        ("engine", ["float32[1, 2, 3]"]),
    ]
    assert net.inspect({"x": (2, 3)}).nodes[1].where == "unshaped"
    assert anylayer.read(declaring(["n", 2, "w"])).inspect().nodes[1].where == "unshaped"


def test_result_with_another_shape_than_value_info_is_noted() -> None:
    class Twice:
        def __init__(self, params: Any, blobs: Any) -> None: ...

        def forward(self, inputs: Any) -> Any:
            return [inputs[0] * 2]

    report = anylayer.read(declaring(), layers=[("Twice", Twice)]).inspect()
    assert report.nodes[0].notes == ["output 0 has shape (1, 3), the file declares (1, 2, 3)"]


def test_floats_print_as_written() -> None:
    network = anylayer.read(declaring()).network
    assert network.nodes[0].params["attribute"] == {"gain": -0.3, "more": [0.1, 2.5]}
    assert "gain=-0.3 more=0.1,2.5" in str(anylayer.read(declaring()).inspect())
