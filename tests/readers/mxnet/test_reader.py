"""Tests of the MXNet reader: symbols, .params files, labels, and what is refused."""

from __future__ import annotations

import json
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import anylayer
from anylayer.network import TensorType
from anylayer.readers.mxnet.params import DTYPES, read_arrays
from tests.layers.mxnet.recorded import recorded

Symbol = dict[str, Any]


def lenet(folder: Path, change: Callable[[Symbol], object] = lambda symbol: None) -> list[Path]:
    """Write a recorded network, whose symbol `change` changes, and return its files."""
    files = recorded()["lenet"].save(folder)
    symbol = json.loads(files[0].read_text())
    change(symbol)
    files[0].write_text(json.dumps(symbol))
    return files


def of_type(symbol: Symbol, kind: str) -> Symbol:
    node: Symbol = next(node for node in symbol["nodes"] if node["op"] == kind)
    return node


def test_variables_become_inputs_and_constants(tmp_path: Path) -> None:
    net = anylayer.read(*lenet(tmp_path)).network
    assert net.inputs == {"data": TensorType.of((1, 1, 12, 12))}  # __shape__ is (0, 1, 12, 12)
    assert net.open == {"data": (None, 1, 12, 12)}
    assert net.outputs == {"softmax_output": "softmax_output"}
    assert not net.notes
    constants = [node.name for node in net.nodes if node.type == "null"]
    assert constants == ["conv1_weight", "conv1_bias", "conv2_weight", "conv2_bias", "fc_weight", "fc_bias"]


def test_values_have_the_names_of_mxnet(tmp_path: Path) -> None:
    net = anylayer.read(*lenet(tmp_path))
    names = [node.outputs for node in net.network.nodes if node.type != "null"]
    assert names[:2] == [["conv1_output"], ["tanh1_output"]]
    model = net.compile("numpy", outputs=["tanh1", "pool1_output"])
    assert model(recorded()["lenet"].inputs)["pool1_output"].shape == (2, 6, 4, 4)


def test_names_of_values_precede_names_of_nodes(tmp_path: Path) -> None:
    net = anylayer.read(*lenet(tmp_path, lambda symbol: symbol["nodes"][4].update(name="data")))  # tanh1
    assert net.network.blobs["data"] == "data"
    assert net.network.blobs["data_output"] == "data_output"


def test_parts_that_only_labels_need_are_left_out(tmp_path: Path) -> None:
    def relabel(symbol: Symbol) -> None:
        label = next(i for i, node in enumerate(symbol["nodes"]) if node["name"] == "softmax_label")
        symbol["nodes"].insert(label + 1, {"op": "Unheard", "name": "of_label", "inputs": [[label, 0, 0]]})
        symbol["nodes"][-1]["inputs"][1] = [label + 1, 0, 0]
        symbol["heads"] = [[len(symbol["nodes"]) - 1, 0, 0]]

    net = anylayer.read(*lenet(tmp_path, relabel))
    assert not net.unknown
    assert list(net.inputs) == ["data"]


def test_arrays_without_consumers_are_noted(tmp_path: Path) -> None:
    files = lenet(tmp_path, lambda symbol: symbol.update(heads=[[4, 0, 0]]))  # the output of tanh1
    (note,) = anylayer.read(*files).network.notes
    assert note.endswith(
        "net-0000.params: no node of the network reads conv2_bias, conv2_weight, fc_bias and 1 more"
    )


def test_hidden_attributes_are_ignored(tmp_path: Path) -> None:
    def hide(symbol: Symbol) -> None:
        of_type(symbol, "Convolution")["attrs"].update(
            {"__lr_mult__": "2", "weight_wd_mult": "0", "ctx_group": "a"}
        )

    net = anylayer.read(*lenet(tmp_path, hide))
    assert {*net.network.nodes[2].params["attrs"]} == {"kernel", "num_filter"}


def test_attributes_keep_their_text(tmp_path: Path) -> None:
    net = anylayer.read(*lenet(tmp_path))
    node = net.network.nodes[2]
    assert node.params["attrs"]["kernel"] == [5, 5]
    assert node.texts["attrs.kernel"] == "(5, 5)"


def test_user_classes_get_arrays_as_blobs(tmp_path: Path) -> None:
    def rename(symbol: Symbol) -> None:
        of_type(symbol, "FullyConnected")["op"] = "Scaled"

    layers = tmp_path / "layers.py"
    layers.write_text(
        "import anylayer\n@anylayer.layer('Scaled')\n"
        "def scaled(x, *, num_hidden, blobs):\n    return x @ blobs[0].T * num_hidden + blobs[1]\n"
    )
    files = lenet(tmp_path, rename)
    with pytest.raises(anylayer.AnyLayerError, match="unknown layer type: 'Scaled'"):
        anylayer.read(*files).compile("numpy")
    assert anylayer.read(*files, layers=layers).compile("numpy")(recorded()["lenet"].inputs)


def test_custom_operators_are_named_after_their_op_type(tmp_path: Path) -> None:
    """Custom operators of two kinds in one file have classes of their own. A built-in type may have the name."""

    def rename(symbol: Symbol) -> None:
        for kind, name in (("FullyConnected", "softmax"), ("Pooling", "my.pool")):
            of_type(symbol, kind).update(op="Custom", attrs={"op_type": name, "factor": "2"})

    files = lenet(tmp_path, rename)
    net = anylayer.read(*files)
    assert {node.type for node in net.unknown} == {"Custom:softmax", "Custom:my.pool"}
    assert net.network.nodes[-2].params["attrs"] == {"factor": 2}
    assert len(net.network.nodes[-2].blobs) == 2
    assert "fc_weight" not in [node.name for node in net.network.nodes]


def test_operators_inside_of_a_loop_may_be_of_users(tmp_path: Path) -> None:
    files = recorded()["_foreach cell"].save(tmp_path)
    files[0].write_text(files[0].read_text().replace('"tanh"', '"Squash"'))
    case = recorded()["_foreach cell"]
    with pytest.raises(anylayer.AnyLayerError, match="'Squash' inside a graph is not defined; register a class"):
        anylayer.read(*files).compile("numpy", shapes=case.shapes)(case.inputs)


def test_nesting_of_subgraphs_has_a_limit(tmp_path: Path) -> None:
    def nest(symbol: Symbol) -> None:
        inner: Symbol = {"nodes": [], "heads": []}
        for _ in range(40):
            inner = {"nodes": [{"op": "a", "name": "a", "inputs": [], "subgraphs": [inner]}], "heads": [[0, 0, 0]]}
        of_type(symbol, "Convolution")["subgraphs"] = [inner]

    with pytest.raises(anylayer.AnyLayerError, match="its subgraphs are nested deeper than 32"):
        anylayer.read(*lenet(tmp_path, nest))


def damaged(**changes: object) -> Callable[[Symbol], object]:
    return lambda symbol: symbol.update(changes)


def at(kind: str, **changes: object) -> Callable[[Symbol], object]:
    return lambda symbol: of_type(symbol, kind).update(changes)


def with_attribute(kind: str, name: str, value: str) -> Callable[[Symbol], object]:
    return lambda symbol: of_type(symbol, kind)["attrs"].update({name: value})


REFUSED: dict[str, tuple[Callable[[Symbol], object], str]] = {
    "nodes": (damaged(heads={"a": 1}), "'heads' must be a list, got dict"),
    "a node": (damaged(nodes=["x", {"op": ""}]), "node 0 must be an object, got a str"),
    "no heads": (damaged(heads=[]), "it has no outputs"),
    "a head": (damaged(heads=[[99, 0, 0]]), "heads name node 99, which is not among the"),
    "an entry": (damaged(heads=[["0", 0]]), "heads must be lists [node, output, 0]"),
    "version": (damaged(attrs={"mxnet_version": 5}), "mxnet_version must be ['int', number], got 5"),
    "a cycle": (at("Convolution", inputs=[[3, 0, 0]]), "inputs of node 'conv1' name node"),
    "attributes": (
        at("Convolution", attrs={"kernel": [3, 3]}),
        "attrs of node 'conv1' must be an object of texts",
    ),
    "no op": (at("Convolution", op=5), "needs a name and an op, both texts"),
    "subgraphs": (
        at("Convolution", subgraphs=[{}]),
        "a subgraph of node 'conv1': 'nodes' must be a list, got NoneType",
    ),
    "a subgraph": (at("Convolution", subgraphs=[5]), "a subgraph of node 'conv1' must be an object, got a int"),
    "a weight": (
        at("Convolution", name="c", inputs=[[0, 0, 0], [1, 1, 0]]),
        "'conv1_weight' has one output, not 2",
    ),
    "unknown attribute": (with_attribute("Convolution", "paddding", "1"), "attrs has no field 'paddding'"),
    "layout": (
        with_attribute("Convolution", "layout", "NCHWc"),
        "must be one of NCHW, NCW, NCDHW, NHWC, NWC, NDHWC",
    ),
    "kernel": (
        with_attribute("Convolution", "kernel", "(3, 3)"),
        "the weights must be of shape (6, 1, 3, 3), got",
    ),
    "same": (with_attribute("Pooling", "pooling_convention", "same"), "must be one of valid, full, got same"),
    "a shape": (with_attribute("null", "__shape__", "(x, 3)"), "input 'data': its shape (x, 3) is not supported"),
    "a dtype": (with_attribute("null", "__dtype__", "12"), "input 'data': its dtype 12 is not known"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refuses_damaged_or_unsupported_symbols(name: str, tmp_path: Path) -> None:
    change, text = REFUSED[name]
    with pytest.raises(anylayer.AnyLayerError) as error:
        anylayer.read(*lenet(tmp_path, change)).compile("numpy")(recorded()["lenet"].inputs)
    assert text in str(error.value), str(error.value)


def test_refuses_a_symbol_without_its_weights(tmp_path: Path) -> None:
    symbol, params = lenet(tmp_path)
    text = (
        "'conv1_weight' is a weight, which is in a .params file: give this file after the network; in its folder "
        "is net-0000.params$"
    )
    with pytest.raises(anylayer.AnyLayerError, match=text):
        anylayer.read(symbol)
    arrays = {name: np.ones(2, np.float32) for name in ("a", "b")}
    params.write_bytes(stored(arrays))
    with pytest.raises(
        anylayer.AnyLayerError, match=r"'conv1_weight' is a weight, and .*params has no array of this"
    ):
        anylayer.read(symbol, params)


def test_refuses_params_without_a_symbol(tmp_path: Path) -> None:
    _, params = lenet(tmp_path)
    text = "weights of an MXNet network.*Give the network .-symbol.json. first, and this file after it"
    with pytest.raises(anylayer.AnyLayerError, match=text):
        anylayer.read(params)


def test_networks_of_float16_take_float16(tmp_path: Path) -> None:
    """As MXNet infers. The normalization keeps its statistics in float32."""
    case = recorded()["mobilenet"]
    symbol, params = case.save(tmp_path)
    arrays = read_arrays(params)
    halves = {n: a if "_bn_" in n else a.astype(np.float16) for n, a in arrays.items()}
    params.write_bytes(stored(halves))
    net = anylayer.read(symbol, params)
    assert net.network.dtypes == {"data": np.dtype(np.float16)}
    (y,) = net.compile("numpy", shapes=case.shapes)({"data": case.inputs["data"].astype(np.float16)}).values()
    assert y.dtype == np.float16
    np.testing.assert_allclose(y, case.outputs[0], atol=1e-3)


def stored(
    arrays: dict[str, np.ndarray[Any, Any]], names: int | None = None, head: tuple[int, int] = (0xF993FAC9, 0),
    dtype: int | None = None,
) -> bytes:  # fmt: skip
    """Return a .params file whose arrays have version 2 and a storage type."""
    parts = [struct.pack("<QQQ", 0x112, 0, len(arrays))]
    for array in arrays.values():
        number = DTYPES.index(array.dtype.name) if dtype is None else dtype
        parts.append(struct.pack("<Iii", *head, array.ndim) + struct.pack(f"<{array.ndim}q", *array.shape))
        parts.append(struct.pack("<iii", 1, 0, number) + array.tobytes())
    parts.append(struct.pack("<Q", len(arrays) if names is None else names))
    return b"".join(parts + [struct.pack("<Q", len(n)) + n.encode() for n in arrays])


ONE = {"conv1_weight": np.ones((6, 1, 5, 5), np.float32)}
PARAMS = {
    "sparse": (stored(ONE, head=(0xF993FAC9, 1)), "array 0: its storage is row_sparse; only dense arrays"),
    "csr": (stored(ONE, head=(0xF993FAC9, 2)), "array 0: its storage is csr; only dense arrays"),
    "dtype": (stored(ONE, dtype=12), "array 0: its dtype has number 12; known are 0 to 7"),
    "no shape": (stored({"a": np.ones((), np.float32)}), "array 0: it has no shape, and so no values"),
    "names": (stored(ONE, names=3), "it has 1 arrays, but 3 names"),
    "cut off": (stored(ONE)[:300], "array 0: the file is cut off"),
    "longer": (stored(ONE) + b"x", "it has 1 bytes after the names"),
    "twice": (stored({"arg:a": ONE["conv1_weight"], "aux:a": ONE["conv1_weight"]}), "it has two arrays 'a'"),
    "claims": (struct.pack("<QQQ", 0x112, 0, 1 << 60), "it claims 1152921504606846976 arrays"),
    "rank": (struct.pack("<QQQI", 0x112, 0, 1, 99), "array 0: it has 99 axes"),
    "no array": (
        struct.pack("<QQQIiiqqqiii", 0x112, 0, 1, 0xF993FAC9, 0, 3, 0, 1 << 62, 1 << 62, 1, 0, 0) + bytes(8),
        "array 0: no array has shape (0, 4611686018427387904, 4611686018427387904)",
    ),
    "bool": (stored({"a": np.full(4, 7, np.uint8)}, dtype=7), "array 0: its values are neither true nor false"),
}


@pytest.mark.parametrize("name", PARAMS)
def test_refuses_damaged_or_unsupported_params(name: str, tmp_path: Path) -> None:
    content, text = PARAMS[name]
    symbol, params = lenet(tmp_path)
    params.write_bytes(content)
    with pytest.raises(anylayer.AnyLayerError) as error:
        anylayer.read(symbol, params)
    assert text in str(error.value), str(error.value)


@pytest.mark.parametrize("batch", [1, 3])
def test_open_batch_and_map_match_fixed_ones(batch: int, tmp_path: Path) -> None:
    net = recorded()["segmentation"].read(tmp_path)
    model = net.compile("onnxruntime", shapes={"data": ("N", 3, "16*h", "16*w")})
    x = np.random.default_rng(0).standard_normal((batch, 3, 32, 48)).astype(np.float32)
    (name,) = net.outputs
    expected = net.compile("numpy", shapes={"data": x.shape})({"data": x})[name]
    np.testing.assert_allclose(model({"data": x})[name], expected, atol=1e-5)
