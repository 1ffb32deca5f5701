"""Models as files: values, constants, functions, weights beside, and what is refused."""

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
    """The outputs, the same on NumPy and on ONNX Runtime."""
    net = anylayer.read(path, layers=layers)
    want = net.compile("numpy")(feed)
    got = net.compile("onnxruntime")(feed)
    for name, array in want.items():
        np.testing.assert_allclose(got[name], array, rtol=1e-5, atol=1e-6)
    return list(want.values())


# ------------------------------------------------------------------------------------------------- what is read


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


def test_an_open_batch_is_one() -> None:
    network = anylayer.read(save(model([node("Relu", ["x"], ["y"])], [value("x", ["n", 3, 4])], ["y"]))).network
    assert network.inputs["x"] == TensorType.of((1, 3, 4)) and network.open == {"x": (None, 3, 4)}


def test_other_open_sizes_are_asked_for() -> None:
    path = save(model([node("Relu", ["x"], ["y"])], [value("x", ["n", "c"], np.float64)], ["y"]))
    net = anylayer.read(path)
    assert net.network.inputs == {"x": None} and net.network.open == {"x": (None, None)}
    with pytest.raises(AnyLayerError, match=r"the shape of input 'x' is \[\?, \?\] in the file"):
        make_plan(net.network, net.definitions, net.network.inputs, net.network.outputs)
    assert net.compile("onnxruntime")(np.ones((2, 2)))["y"].dtype == np.float64


def test_nodes_in_any_order() -> None:
    path = save(model([node("Neg", ["a"], ["y"]), node("Abs", ["x"], ["a"])], [X], ["y"]))
    assert [n.type for n in anylayer.read(path).network.nodes] == ["Abs", "Neg"]


def test_constants_written_as_nodes() -> None:
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


def test_a_sparse_array_is_written_out() -> None:
    made = model([node("Add", ["x", "w"], ["y"])], [X], ["y"])
    values = numpy_helper.from_array(np.float32([5, 7]), "w")
    indices = numpy_helper.from_array(np.int64([1, 2]), "i")
    made.graph.sparse_initializer.append(helper.make_sparse_tensor(values, indices, [3]))
    np.testing.assert_array_equal(run(save(made))[0], SAMPLE + np.float32([0, 5, 7]))


def test_outputs_nobody_reads() -> None:
    nodes = [node("MaxPool", ["x"], ["", "i"], kernel_shape=[2], strides=[1]), node("Neg", ["i"], ["y"])]
    got = run(save(model(nodes, [value("x", [1, 1, 4])], ["y"])), np.float32([[[1, 3, 2, 0]]]))
    assert got[0].tolist() == [[[-1, -1, -2]]]


# ---------------------------------------------------------------------------------------------------- functions


def scaled() -> onnx.FunctionProto:
    """Scaled(x, w) = x * w + offset, an attribute with a default."""
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
    """A user's class for the function, in OpenCV's form."""

    def __init__(self, params: dict[str, Any], blobs: tuple[np.ndarray, ...]) -> None:
        self.offset, self.w = params.get("offset", 1.0), blobs[0]

    def forward(self, inputs: list[Any]) -> list[Any]:
        return [inputs[0] * self.w + np.float32(self.offset)]


@pytest.mark.parametrize("name", ["Scaled", "my.own.Scaled"])
def test_a_registered_class_is_called_in_place_of_a_function(name: str) -> None:
    net = anylayer.read(calls(offset=10.0), layers=[(name, Scaled)])
    assert [n.type for n in net.network.nodes] == [name, name]
    np.testing.assert_array_equal(net.compile("onnxruntime")(SAMPLE)["y"], (SAMPLE * 2 + 1) * 2 + 10)


def test_a_function_that_calls_itself_is_refused() -> None:
    own = helper.make_function(
        "d", "F", ["x"], ["y"], [node("F", ["x"], ["y"], domain="d")], [helper.make_opsetid("d", 1)]
    )
    path = save(model([node("F", ["x"], ["y"], domain="d")], [X], ["y"], functions=[own], domains=["d"]))
    with pytest.raises(NetworkError, match="functions call one another more than 32 deep; does it call itself"):
        anylayer.read(path)


def test_functions_that_double_are_counted() -> None:
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
    with pytest.raises(NetworkError, match="it has more than 50000 nodes, those of its functions counted"):
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


def test_a_class_for_an_unknown_operator_gets_attributes_and_constants() -> None:
    class Fancy:
        def __init__(self, params: dict[str, Any], blobs: tuple[np.ndarray, ...]) -> None:
            assert (params["mode"], params["k"], params["scales"]) == ("up", 3, (0.5, 2.0))
            self.w = blobs[0]

        def forward(self, inputs: list[Any]) -> list[Any]:
            return [inputs[0] * self.w]

    np.testing.assert_array_equal(run(unknown(), layers=[("Fancy", Fancy)])[0], SAMPLE * np.float32([1, 2, 3]))


def test_an_operator_of_another_domain_is_not_taken_for_onnx_s() -> None:
    path = save(
        model([node("Attention", ["x"], ["y"], domain="com.microsoft")], [X], ["y"], domains=["com.microsoft"])
    )
    assert anylayer.read(path).network.nodes[0].type == "com.microsoft.Attention"


def test_a_class_wins_over_onnx_s_own_operator() -> None:
    class Double:
        def __init__(self, params: Any, blobs: Any) -> None: ...

        def forward(self, inputs: list[Any]) -> list[Any]:
            return [inputs[0] * np.float32(2)]

    path = save(model([node("Relu", ["x"], ["y"])], [X], ["y"]))
    np.testing.assert_array_equal(run(path, -SAMPLE, layers=[("Relu", Double)])[0], -2 * SAMPLE)


# ------------------------------------------------------------------------------------------------ weights beside


def beside(location: str, **told: str) -> Path:
    """A model whose weights (six floats) lie in a file."""
    made = model([node("Add", ["x", "w"], ["y"])], [X], ["y"])
    tensor = TensorProto(name="w", data_type=TensorProto.FLOAT, dims=[2, 3])
    tensor.data_location = TensorProto.EXTERNAL
    for key, text in {"location": location, **told}.items():
        tensor.external_data.add(key=key, value=text)
    made.graph.initializer.append(tensor)
    return save(made)


def test_weights_in_a_file_beside_are_mapped() -> None:
    Path("sub").mkdir()
    Path("sub/w.bin").write_bytes(b"skip" + SAMPLE.tobytes())
    path = beside("sub/w.bin", offset="4", length="24")
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
        ("none.bin", "its external data 'none.bin' is not beside the model"),
        ("", "its external data names no file"),
    ],
)
def test_weights_outside_the_folder_are_refused(location: str, message: str) -> None:
    with pytest.raises(FileError, match=message):
        anylayer.read(beside(location))


def test_a_link_out_of_the_folder_is_refused() -> None:
    Path("inside").mkdir()
    Path("secret").write_bytes(SAMPLE.tobytes())
    os.chdir("inside")
    Path("w.bin").symlink_to("../secret")
    with pytest.raises(FileError, match="is a link that leads out of the model's folder"):
        anylayer.read(beside("w.bin"))


@pytest.mark.parametrize(
    ("told", "message"),
    [
        ({"offset": "4"}, "'w.bin' has 24 bytes, 28 are needed"),
        ({"length": "8"}, r"float\[2, 3\] is 24 bytes, 8 are there"),
        ({"offset": "-4"}, "the offset of its external data is '-4'"),
        ({"length": "9" * 30}, "the length of its external data is '999"),
    ],
)
def test_places_in_the_file_are_checked(told: dict[str, str], message: str) -> None:
    Path("w.bin").write_bytes(SAMPLE.tobytes())
    with pytest.raises(FileError, match=message):
        anylayer.read(beside("w.bin", **told))


def test_large_weights_inside_stay_in_the_mapped_file() -> None:
    path = save(
        model([node("Add", ["x", "w"], ["y"])], [value("x", [64, 64])], ["y"], {"w": np.ones((64, 64), "f4")})
    )
    blob = anylayer.read(path).network.nodes[0].blobs[0]
    assert not blob.flags.owndata and blob.tolist() == np.ones((64, 64)).tolist()


# ------------------------------------------------------------------------------------------------ what is refused


def lying(dims: list[int], raw: bytes = b"\0" * 24, kind: int = TensorProto.FLOAT) -> Path:
    made = model([node("Add", ["x", "w"], ["y"])], [X], ["y"])
    made.graph.initializer.append(TensorProto(name="w", data_type=kind, dims=dims, raw_data=raw))
    return save(made)


@pytest.mark.parametrize(
    ("path", "message"),
    [
        (
            lambda: lying([1 << 40, 1 << 20]),
            r"array 'w': float\[1099511627776, 1048576\] is \d+ bytes, 24 are there",
        ),
        (lambda: lying([-1, 3]), r"has shape \(-1, 3\): a size is negative"),
        (lambda: lying([1] * 40), "has 40 axes, 32 are the most"),
        (lambda: lying([6], b"\0" * 5000), r"float\[6\] is 24 bytes, 5000 are there"),
        (lambda: lying([6], kind=77), "has data type 77, which the installed onnx package does not know"),
        (lambda: lying([6], kind=TensorProto.STRING), "holds string values: arrays of numbers are read"),
    ],
)
def test_arrays_that_lie(path: Any, message: str) -> None:
    with pytest.raises(FileError, match=message):
        anylayer.read(path())


@pytest.mark.parametrize(
    ("nodes", "message"),
    [
        ([node("Add", ["x", "z"], ["y"])], "layer 'Add_0' .Add.: input 'z' is produced by no node"),
        ([node("Neg", ["b"], ["y"]), node("Neg", ["y"], ["b"])], "these nodes wait for one another in a circle"),
        ([node("Neg", ["x"], ["y"]), node("Abs", ["x"], ["y"])], "value 'y' is produced twice"),
        ([node("Neg", ["x"], ["z"])], "output 'y' is produced by no node"),
    ],
)
def test_networks_that_do_not_hang_together(nodes: Any, message: str) -> None:
    with pytest.raises(NetworkError, match=message):
        anylayer.read(save(model(nodes, [X], ["y"])))


@pytest.mark.parametrize(
    ("made", "message"),
    [
        (node("Relu", ["x", "x"], ["y"]), r"takes 1 inputs, got 2"),
        (node("Relu", ["x"], ["y"], slope=0.1), "Relu has no attribute 'slope' in operator set 18; it has: none"),
        (node("Concat", ["x", "x"], ["y"]), "attribute 'axis' is missing"),
        (node("LeakyRelu", ["x"], ["y"], alpha="much"), "parameter 'alpha': must be a number, got 'much'"),
        (node("Conv", ["x", "x"], ["y"]), r"needs an input \(N, C, ...\), got shape \(2, 3\)"),
    ],
)
def test_operators_are_checked_against_their_schemas(made: Any, message: str) -> None:
    with pytest.raises(LayerError, match=message):
        anylayer.read(save(model([made], [X], ["y"]))).compile("onnxruntime")


def test_a_newer_operator_set_than_the_package_knows() -> None:
    with pytest.raises(NetworkError, match=r"its operator set is 99; the installed onnx package knows 1 to \d+"):
        anylayer.read(save(model([node("Relu", ["x"], ["y"])], [X], ["y"], opset=99)))


def test_files_that_are_cut_off() -> None:
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


def test_damaged_files_end_in_our_errors() -> None:
    """Bytes changed at random: a network, or an error of ours, quickly."""
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
    """A network whose first operator nobody knows; value_info has the shape of what it gives."""
    made = model(
        [node("Twice", ["x"], ["a"], domain="my", gain=-0.3, more=[0.1, 2.5]), node("Relu", ["a"], ["y"])],
        [value("x", ["n", 3])],
        ["y"],
        domains=["my"],
    )
    made.graph.value_info.append(value("a", shape))
    made.graph.value_info.append(helper.make_tensor_value_info("s", TensorProto.STRING, [1]))
    return save(made)


def test_value_info_gives_the_shapes_behind_an_unknown_operator() -> None:
    net = anylayer.read(declaring(["n", 2, 3]))
    report = net.inspect()
    assert [(n.where, [str(t) for _, t in n.outputs]) for n in report.nodes] == [
        ("unknown", ["float32[1, 2, 3]"]),
        ("engine", ["float32[1, 2, 3]"]),
    ]
    assert net.inspect({"x": (2, 3)}).nodes[1].where == "unshaped"
    assert anylayer.read(declaring(["n", 2, "w"])).inspect().nodes[1].where == "unshaped"


def test_a_class_that_gives_another_shape_than_value_info_is_noted() -> None:
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
