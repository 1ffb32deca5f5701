"""Two files side by side: what other people's converters write, and variants that are broken at one node."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import anylayer
from anylayer.errors import InputError
from anylayer.inspect.diff_result import Cell, Diff

onnx = pytest.importorskip("onnx")
DATA = Path(__file__).parent.parent / "data" / "diff"
KERAS, TF2ONNX = DATA / "net.h5", DATA / "net.tf2onnx.onnx"
ONNX, ONNX2TF = DATA / "net.onnx", DATA / "net.onnx2tf.pb"
Change = Callable[["onnx.ModelProto"], None]
FOLDED = "Conv__21"
"""The node into which tf2onnx folded bn1."""


def weight(node: str, change: Callable[[np.ndarray], np.ndarray]) -> Change:
    """Return the change of a node's second input."""

    def act(model: onnx.ModelProto) -> None:
        name = _node(model, node).input[1]
        tensor = next(t for t in model.graph.initializer if t.name == name)
        values = np.ascontiguousarray(change(onnx.numpy_helper.to_array(tensor)))
        tensor.CopyFrom(onnx.numpy_helper.from_array(values, name))

    return act


def attribute(node: str, name: str, value: object) -> Change:
    def act(model: onnx.ModelProto) -> None:
        attributes = _node(model, node).attribute
        for one in [a for a in attributes if a.name == name]:
            attributes.remove(one)
        attributes.append(onnx.helper.make_attribute(name, value))

    return act


def without(node: str) -> Change:
    def act(model: onnx.ModelProto) -> None:
        gone = _node(model, node)
        model.graph.node.remove(gone)
        for one in model.graph.node:
            one.input[:] = [gone.input[0] if n == gone.output[0] else n for n in one.input]
        for output in model.graph.output:
            output.name = gone.input[0] if output.name == gone.output[0] else output.name

    return act


def with_relu(after: str) -> Change:
    def act(model: onnx.ModelProto) -> None:
        value = _node(model, after).output[0]
        at = next(i for i, n in enumerate(model.graph.node) if n.name == after)
        for one in model.graph.node:
            one.input[:] = ["extra" if n == value else n for n in one.input]
        model.graph.node.insert(at + 1, onnx.helper.make_node("Relu", [value], ["extra"], "extra"))

    return act


def average(model: onnx.ModelProto) -> None:
    _node(model, "pool").op_type = "AveragePool"


def _node(model: onnx.ModelProto, name: str) -> onnx.NodeProto:
    return next(n for n in model.graph.node if n.name == name)


def broken(source: Path, folder: Path, *changes: Change, renamed: bool = True) -> Path:
    """Write a changed copy of an ONNX file, in which no node and no value keeps its name."""
    model = onnx.load(source)
    for change in changes:
        change(model)
    if renamed:
        names = {value: f"v{i}" for i, n in enumerate(model.graph.node) for value in n.output}
        for i, node in enumerate(model.graph.node):
            node.name = f"n{i}"
            node.input[:] = [names.get(n, n) for n in node.input]
            node.output[:] = [names[n] for n in node.output]
        for output in model.graph.output:
            output.name = names[output.name]
    onnx.save(model, folder / "broken.onnx")
    return folder / "broken.onnx"


def places(found: Diff) -> list[tuple[tuple[str, ...], tuple[str, ...]]]:
    """Return the types of the nodes at each difference."""
    cells = [(row.a, row.b) for row in found.rows if row.status == "differs"]
    return [(_types(a), _types(b)) for a, b in cells]


def _types(cell: Cell | None) -> tuple[str, ...]:
    return () if cell is None else cell.types


def names(found: Diff) -> tuple[str, ...]:
    assert found.first is not None
    return () if found.first.a is None else found.first.a.names


# ------------------------------------------------------------------ what converters write


@pytest.mark.parametrize(("a", "b"), [(KERAS, TF2ONNX), (TF2ONNX, KERAS), (ONNX, ONNX2TF), (ONNX2TF, ONNX)])
def test_converted_networks_are_the_same(a: Path, b: Path) -> None:
    found = anylayer.diff(a, b)
    assert found.same and found.verdict == "they compute the same"
    assert all(o.error < 1e-5 for o in found.outputs)
    assert found.counts()["same"] == 10 and "not compared" not in found.counts()


def test_folded_nodes_are_named() -> None:
    rows = anylayer.diff(KERAS, TF2ONNX).rows
    pairs = {row.a.names[0]: row.b.names[0] for row in rows if row.a is not None and row.b is not None}
    assert pairs["bn1"] == FOLDED
    assert [r.note for r in rows if r.a is not None and r.a.names == ("conv1",)] == [f"part of '{FOLDED}'"]
    assert [r.note for r in rows if r.b is not None and r.b.types == ("Mul",)] == ["part of 'bn2'"]
    assert pairs["scores"] == "net_1/scores_1/Softmax"


def test_own_conversions_are_the_same(tmp_path: Path) -> None:
    net = anylayer.read(KERAS)
    for name, options in (("net.onnx", {}), ("net.prototxt", {"format": "caffe"}), ("net.xml", {})):
        net.write(tmp_path / name, **options)
        weights = tmp_path / "net.caffemodel" if name == "net.prototxt" else None
        found = anylayer.diff(net, anylayer.read(tmp_path / name, weights))
        assert found.same, (name, str(found))


def test_half_precision_is_the_same_within_its_tolerance(tmp_path: Path) -> None:
    anylayer.read(ONNX).write(tmp_path / "half.onnx", precision="float16")
    found = anylayer.diff(ONNX, tmp_path / "half.onnx")
    assert found.same and 1e-5 < found.outputs[0].error < 1e-2
    assert "other parameters or weights" not in str(found)
    wrong = broken(tmp_path / "half.onnx", tmp_path, without("relu2"))
    assert names(anylayer.diff(ONNX, wrong)) == ("relu2",)


# ------------------------------------------------------------------ broken at one node

BROKEN: list[tuple[str, Change, tuple[str, ...], str]] = [
    (
        "transposed weight",
        weight("conv1", lambda w: w.transpose(0, 1, 3, 2)),
        ("conv1",),
        "transposed by (0, 1, 3, 2)",
    ),
    ("transposed 1x1", weight("pointwise", lambda w: w.transpose(1, 0, 2, 3)), ("pointwise",), "(1, 0, 2, 3)"),
    ("float16", weight("conv1", lambda w: w.astype("e").astype("f")), ("conv1",), "A's, rounded to float16"),
    ("padding", attribute("conv1", "pads", [0, 0, 2, 2]), ("conv1",), "Conv pads: [1, 1, 1, 1] | [0, 0, 2, 2]"),
    ("epsilon", attribute("bn2", "epsilon", 1e-3), ("bn2",), "epsilon: 1e-05 | 0.001"),
    ("channel order", weight("conv1", lambda w: w[:, ::-1]), ("conv1",), "reversed on axis 1 (BGR, RGB)"),
    ("missing ReLU", without("relu1"), ("relu1",), "B lacks 'relu1' (Relu)"),
    ("missing ReLU in a branch", without("relu2"), ("relu2",), "B lacks 'relu2' (Relu)"),
    ("missing end", without("scores"), ("scores",), "B lacks 'scores' (Softmax)"),
    ("extra ReLU", with_relu("pointwise"), (), "A lacks"),
    ("other pooling", average, ("pool",), "operators: MaxPool | AveragePool"),
]


@pytest.mark.parametrize("renamed", [True, False])
@pytest.mark.parametrize(("change", "where", "text"), [b[1:] for b in BROKEN], ids=[b[0] for b in BROKEN])
def test_broken_node_is_found(
    change: Change, where: tuple[str, ...], text: str, renamed: bool, tmp_path: Path
) -> None:
    found = anylayer.diff(ONNX, broken(ONNX, tmp_path, change, renamed=renamed))
    assert not found.same
    assert names(found) == where
    assert len(places(found)) == 1, str(found)
    assert text in str(found)
    assert found.differences[0].rejoins


FAULTS: dict[str, Change] = {
    "conv1": weight("conv1", lambda w: w.transpose(0, 1, 3, 2)),
    "bn1": attribute("bn1", "epsilon", 1e-3),
    "relu1": without("relu1"),
    "depthwise": weight("depthwise", lambda w: w.transpose(0, 1, 3, 2)),
    "bn2": attribute("bn2", "epsilon", 1e-3),
    "relu2": without("relu2"),
    "pointwise": weight("pointwise", lambda w: w.transpose(1, 0, 2, 3)),
    "logits": weight("logits", lambda w: -w),
}


@pytest.mark.parametrize(
    "broken_nodes",
    [
        *(("bn1", "depthwise", "logits"), ("conv1", "bn1"), ("bn1", "relu1"), ("relu1", "depthwise")),
        *(("depthwise", "bn2"), ("bn2", "relu2"), ("depthwise", "pointwise"), ("relu2", "logits")),
    ],
    ids=" ".join,
)
def test_every_broken_node_is_found(broken_nodes: tuple[str, ...], tmp_path: Path) -> None:
    found = anylayer.diff(ONNX, broken(ONNX, tmp_path, *(FAULTS[name] for name in broken_nodes)))
    differing = [row.a.names for row in found.rows if row.status == "differs" and row.a]
    assert differing == [(name,) for name in broken_nodes]


def factor(epsilon: float) -> np.ndarray:
    """Return what another epsilon of bn1 makes of the weights into which it is folded."""
    node = next(n for n in anylayer.read(KERAS).network.nodes if n.name == "bn1")
    variance = node.blobs[3]
    return np.sqrt((variance + np.float32(1e-3)) / (variance + np.float32(epsilon))).reshape(-1, 1, 1, 1)


FOLDS: list[tuple[str, Change, tuple[str, ...], str]] = [
    ("transposed weight", weight(FOLDED, lambda w: w.transpose(0, 1, 3, 2)), ("conv1",), "(0, 1, 3, 2)"),
    ("padding", attribute(FOLDED, "pads", [1, 1, 0, 0]), ("conv1",), "pads: [0, 0, 1, 1] | [1, 1, 0, 0]"),
    ("channel order", weight(FOLDED, lambda w: w[:, ::-1]), ("conv1",), "reversed on axis 1"),
    ("epsilon", weight(FOLDED, lambda w: w * factor(1e-5)), ("bn1",), "epsilon: 0.001 | about 1e-05"),
    ("factor", weight(FOLDED, lambda w: w * np.float32(0.9995)), ("bn1",), "factor of channel"),
    ("missing ReLU", without("net_1/relu1_1/Relu"), ("relu1",), "B lacks 'relu1' (ReLU)"),
    (
        "order of elements",
        attribute("net_1/pool_1/MaxPool2d__19", "perm", [0, 3, 2, 1]),
        ("flat", "drop"),
        "the same, in another order",
    ),
]


@pytest.mark.parametrize(("change", "where", "text"), [b[1:] for b in FOLDS], ids=[b[0] for b in FOLDS])
def test_broken_node_of_a_converter_is_found(
    change: Change, where: tuple[str, ...], text: str, tmp_path: Path
) -> None:
    found = anylayer.diff(KERAS, broken(TF2ONNX, tmp_path, change))
    assert not found.same and names(found) == where and len(places(found)) == 1, str(found)
    assert text in str(found)


def test_layers_that_are_several_nodes_of_the_other_file_are_named_one_by_one(tmp_path: Path) -> None:
    dense = (
        'layer { name: "NAME" type: "InnerProduct" bottom: "FROM" top: "NAME" '
        'inner_product_param { num_output: 7 weight_filler { type: "gaussian" std: 0.2 } } }\n'
    )
    text = 'input: "x" input_shape { dim: 2 dim: 16 }\n'
    nodes, weights, value = [], [], "x"
    for i in (1, 2, 3):
        text += dense.replace("NAME", f"dense{i}").replace("FROM", value)
        text += f'layer {{ name: "tanh{i}" type: "TanH" bottom: "dense{i}" top: "tanh{i}" }}\n'
        nodes += [
            onnx.helper.make_node("MatMul", [value, f"w{i}"], [f"product{i}"]),
            onnx.helper.make_node("Add", [f"product{i}", f"bias{i}"], [f"sum{i}"]),
            onnx.helper.make_node("Tanh", [f"sum{i}"], [f"tanh{i}"]),
        ]
        value = f"tanh{i}"
    (tmp_path / "net.prototxt").write_text(text)
    net = anylayer.read(tmp_path / "net.prototxt")
    net.fill(1)
    for i, (kernel, bias) in enumerate((n.blobs for n in net.network.nodes if n.blobs), 1):
        arrays = {f"w{i}": kernel.T * np.float32(1 + i / 4), f"bias{i}": bias}
        weights += [onnx.numpy_helper.from_array(np.ascontiguousarray(a), n) for n, a in arrays.items()]
    types = [
        onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, shape)
        for name, shape in (("x", [2, 16]), (value, [2, 7]))
    ]
    graph = onnx.helper.make_graph(nodes, "net", types[:1], types[1:], weights)
    opsets = [onnx.helper.make_opsetid("", 18)]
    onnx.save(onnx.helper.make_model(graph, opset_imports=opsets, ir_version=9), tmp_path / "net.onnx")
    found = anylayer.diff(net, tmp_path / "net.onnx")
    assert places(found) == [(("InnerProduct",), ("MatMul",))] * 3


def test_folded_node_is_named_before_another_broken_node(tmp_path: Path) -> None:
    changes = weight(FOLDED, lambda w: w[:, ::-1]), weight("net_1/depthwise_1/depthwise", lambda w: w * 2)
    found = anylayer.diff(KERAS, broken(TF2ONNX, tmp_path, *changes))
    assert [row.a.names for row in found.rows if row.status == "differs" and row.a] == [
        ("conv1",),
        ("depthwise",),
    ]


PARTS = """
input: "x" input_shape { dim: 1 dim: 3 dim: 8 dim: 8 }
layer { name: "conv" type: "Convolution" bottom: "x" top: "conv"
        convolution_param { num_output: 4 kernel_size: 3 weight_filler { type: "gaussian" std: 0.3 } } }
layer { name: "norm" type: "BatchNorm" bottom: "conv" top: "norm" batch_norm_param { use_global_stats: true } }
layer { name: "scale" type: "Scale" bottom: "norm" top: "scale" scale_param { bias_term: true } }
layer { name: "relu" type: "ReLU" bottom: "scale" top: "relu" relu_param { negative_slope: 0.1 } }
layer { name: "pool" type: "Pooling" bottom: "relu" top: "pool" pooling_param { kernel_size: 2 stride: 2 } }
"""


def parts_and_fold(folder: Path, change: Callable[[dict[str, np.ndarray]], object]) -> tuple[anylayer.Net, Path]:
    """Return a Caffe network of BatchNorm, Scale and ReLU, and a file in which one function of NumPy, recorded as
    a convolution and a Relu, computes what all of them do after a change of its numbers."""
    (folder / "parts.prototxt").write_text(PARTS)
    net = anylayer.read(folder / "parts.prototxt").fill(1)
    random = np.random.default_rng(0)
    conv, norm, scale = (n for n in net.network.nodes if n.type in ("Convolution", "BatchNorm", "Scale"))
    conv.blobs = [random.normal(size=(4, 3, 3, 3)).astype("f"), random.normal(size=4).astype("f")]
    norm.blobs = [random.normal(size=4).astype("f"), random.uniform(1, 2, 4).astype("f"), np.ones(1, "f")]
    scale.blobs = [random.uniform(1, 2, 4).astype("f"), random.normal(size=4).astype("f")]
    factor = scale.blobs[0] / np.sqrt(norm.blobs[1] + np.float32(1e-5))
    numbers = {
        "weights": conv.blobs[0] * factor.reshape(-1, 1, 1, 1),
        "bias": (conv.blobs[1] - norm.blobs[0]) * factor + scale.blobs[1],
        "slope": np.float32(0.1),
    }
    change(numbers)

    def folded(x: np.ndarray) -> Any:
        y = anylayer.ops.conv(x, numbers["weights"], numbers["bias"])
        y = anylayer.ops.leaky_relu(y, float(numbers["slope"]))
        return anylayer.ops.max_pool(y, (2, 2), strides=(2, 2))

    anylayer.export(folded, ((1, 3, 8, 8), "float32"), path=folder / "folded.onnx")
    return net, folder / "folded.onnx"


@pytest.mark.parametrize(
    ("key", "number", "where", "text"),
    [
        ("weights", lambda w: w[:, ::-1].copy(), ("conv",), "Conv weights: float32[4, 3, 3, 3] | A's, reversed"),
        ("weights", lambda w: w * np.float32([1, 1, 2, 1]).reshape(-1, 1, 1, 1), None, "factor of channel 2"),
        ("weights", lambda w: w * np.float32([1, 1, 0, 1]).reshape(-1, 1, 1, 1), None, "factor of channel 2"),
        ("bias", lambda x: x + np.float32([0, 0.5, 0, 0]), None, "sum of channel 1"),
        ("slope", lambda x: np.float32(0.2), ("relu",), "LeakyRelu alpha: 0.1 | 0.2"),
        ("slope", lambda x: np.float32(0.1), (), ""),
    ],
)
@pytest.mark.parametrize("turned", [False, True])
def test_folded_bias_scale_and_activation_are_compared(
    key: str, number: Callable[[Any], Any], where: Any, text: str, turned: bool, tmp_path: Path
) -> None:
    net, file = parts_and_fold(tmp_path, lambda n: n.update({key: number(n[key])}))
    found = anylayer.diff(file, net) if turned else anylayer.diff(net, file)
    assert found.same == (where == ()), str(found)
    assert not turned or where is not None or text in str(found), str(found)
    if where != () and not turned:
        assert text in str(found), str(found)
        assert where is None or names(found) == where


def test_pads_are_shown_with_a_pad_before(tmp_path: Path) -> None:
    found = anylayer.diff(broken(ONNX, tmp_path, attribute("conv1", "pads", [0, 0, 2, 2])), ONNX2TF)
    text = " ".join(str(found).split())
    assert "Conv pads: [0, 0, 2, 2] | [0, 0, 0, 0] after Pad [0, 1, 1, 0, 0, 1, 1, 0]" in text


def test_broken_node_is_found_from_the_other_side(tmp_path: Path) -> None:
    file = broken(TF2ONNX, tmp_path, weight(FOLDED, lambda w: w[:, ::-1]))
    found = anylayer.diff(file, KERAS)
    assert places(found) == [(("Conv",), ("Conv2D",))]
    assert "Conv weights: float32[8, 3, 3, 3] | A's, reversed on axis 1" in " ".join(str(found).split())
    file = broken(TF2ONNX, tmp_path, weight(FOLDED, lambda w: w * factor(1e-5)))
    found = anylayer.diff(file, KERAS)
    assert places(found) == [(("Conv",), ("BatchNormalization",))]
    assert "epsilon: about 1e-05 | 0.001" in str(found)


def test_difference_is_not_hidden_by_a_saturated_output(tmp_path: Path) -> None:
    sharp = weight("logits", lambda w: w * np.float32(50))
    a = broken(ONNX, tmp_path, sharp).rename(tmp_path / "a.onnx")
    found = anylayer.diff(a, broken(ONNX, tmp_path, sharp, attribute("bn1", "epsilon", 1e-4)))
    assert places(found) == [(("BatchNormalization",), ("BatchNormalization",))]
    assert not found.same


def test_other_shape_is_a_difference(tmp_path: Path) -> None:
    for name, size in (("a", 2), ("b", 3)):
        (tmp_path / f"{name}.prototxt").write_text(POOLED.replace("SIZE", str(size)))
    found = anylayer.diff(tmp_path / "a.prototxt", tmp_path / "b.prototxt")
    assert names(found) == ("pool",) and len(places(found)) == 1
    assert "shape: float32[1, 4, 4, 4] | float32[1, 4, 3, 3]" in str(found)


def test_other_shape_that_later_nodes_do_not_take_is_named(tmp_path: Path) -> None:
    nets = []
    for name, size in (("a", 2), ("b", 3)):
        (tmp_path / f"{name}.prototxt").write_text(CLASSIFIER.replace("SIZE", str(size)))
        nets.append(anylayer.read(tmp_path / f"{name}.prototxt").fill())
    found = anylayer.diff(*nets)
    assert names(found) == ("pool", "scores") and len(places(found)) == 1
    assert "output: [1, 4, 4, 4] | [1, 4, 3, 3]" in str(found)


def test_order_of_concat_is_compared(tmp_path: Path) -> None:
    text = """input: "x" input_shape { dim: 1 dim: 2 dim: 3 dim: 3 }
layer { name: "abs" type: "AbsVal" bottom: "x" top: "abs" }
layer { name: "join" type: "Concat" bottom: "x" bottom: "abs" top: "join" }
layer { name: "exp" type: "Exp" bottom: "join" top: "exp" }
layer { name: "twice" type: "Power" bottom: "exp" top: "twice" power_param { scale: 2 } }
"""
    (tmp_path / "a.prototxt").write_text(text)
    swapped = text.replace('bottom: "x" bottom: "abs"', 'bottom: "abs" bottom: "x"')
    (tmp_path / "b.prototxt").write_text(swapped)
    found = anylayer.diff(tmp_path / "a.prototxt", tmp_path / "b.prototxt")
    assert names(found) == ("join",) and "numbers: the same, in another order" in str(found)
    assert not found.outputs[0].ok


# ------------------------------------------------------------------ inputs and outputs

TWO = """input: "x" input_shape { dim: 1 dim: 2 } input: "y" input_shape { dim: 1 dim: 2 }
layer { name: "sum" type: "Eltwise" bottom: "x" bottom: "y" top: "sum" eltwise_param { coeff: 1 coeff: 2 } }
"""
POOLED = """input: "x" input_shape { dim: 1 dim: 4 dim: 8 dim: 8 }
layer { name: "pool" type: "Pooling" bottom: "x" top: "pool" pooling_param { kernel_size: SIZE stride: SIZE } }
layer { name: "power" type: "Power" bottom: "pool" top: "power" power_param { scale: 2 } }
layer { name: "all" type: "Pooling" bottom: "power" top: "all" pooling_param { pool: AVE global_pooling: true } }
"""
CLASSIFIER = """input: "x" input_shape { dim: 1 dim: 4 dim: 8 dim: 8 }
layer { name: "pool" type: "Pooling" bottom: "x" top: "pool" pooling_param { kernel_size: SIZE stride: SIZE } }
layer { name: "scores" type: "InnerProduct" bottom: "pool" top: "scores" inner_product_param { num_output: 5 } }
"""
ONE = """input: "x" input_shape {{ dim: 1 dim: 8 }}
layer {{ name: "{type}" type: "{type}" bottom: "x" top: "y" {params} }}
"""


def test_inputs_with_other_names_are_refused_by_name(tmp_path: Path) -> None:
    (tmp_path / "a.prototxt").write_text(TWO)
    (tmp_path / "b.prototxt").write_text(TWO.replace('"x"', '"p"').replace('"y"', '"q"'))
    with pytest.raises(InputError, match=r"inputs of A \(x, y\) and of B \(p, q\) do not .* names={'x': 'p'}"):
        anylayer.diff(tmp_path / "a.prototxt", tmp_path / "b.prototxt")
    files = tmp_path / "a.prototxt", tmp_path / "b.prototxt"
    assert anylayer.diff(*files, names={"x": "p", "y": "q"}).same
    assert not anylayer.diff(*files, names={"x": "q", "y": "p"}).same
    with pytest.raises(InputError, match="B has no input or output 'r'"):
        anylayer.diff(*files, names={"x": "r"})
    with pytest.raises(InputError, match="x, y of A cannot all be 'p' of B"):
        anylayer.diff(*files, names={"x": "p", "y": "p"})
    output = next(iter(anylayer.read(files[1]).network.outputs))
    with pytest.raises(InputError, match=f"'x' of A and '{output}' of B are an input and an output"):
        anylayer.diff(*files, names={"x": output})


def test_constant_output_proves_nothing(tmp_path: Path) -> None:
    text = ONE.format(type="Power", params="power_param { scale: 0 shift: 1 }")
    (tmp_path / "a.prototxt").write_text(text)
    found = anylayer.diff(tmp_path / "a.prototxt", tmp_path / "a.prototxt")
    assert not found.same and not found.compared and found.verdict.startswith("nothing was compared")


SATURATED = """input: "x" input_shape { dim: 1 dim: 8 dim: 4 dim: 4 }
layer { name: "power" type: "Power" bottom: "x" top: "power" power_param { scale: 900 } }
layer { name: "flat" type: "Flatten" bottom: "power" top: "flat" }
layer { name: "scores" type: "Softmax" bottom: "flat" top: "scores" softmax_param { axis: 1 } }
"""


def test_last_nodes_are_compared_on_noise_if_the_output_is_saturated(tmp_path: Path) -> None:
    (tmp_path / "a.prototxt").write_text(SATURATED)
    net = anylayer.read(tmp_path / "a.prototxt")
    net.write(tmp_path / "a.onnx")
    x = np.arange(128, dtype=np.float32).reshape(1, 8, 4, 4)
    found = anylayer.diff(net, tmp_path / "a.onnx", {"x": x})
    assert found.same and [o.alone for o in found.outputs] == [True]
    assert "its last nodes were compared on noise, too" in " ".join(str(found).split())

    def sharper(model: onnx.ModelProto) -> None:
        at = next(i for i, n in enumerate(model.graph.node) if n.op_type == "Softmax")
        softmax = model.graph.node[at]
        model.graph.initializer.append(onnx.numpy_helper.from_array(np.float32(2), "two"))
        model.graph.node.insert(at, onnx.helper.make_node("Mul", [softmax.input[0], "two"], ["sharp"], "sharp"))
        model.graph.node[at + 1].input[0] = "sharp"

    wrong = anylayer.diff(net, broken(tmp_path / "a.onnx", tmp_path, sharper), {"x": x})
    assert not wrong.same and wrong.verdict == "the last nodes before output 'scores' differ on noise"


CROPPED = """input: "x" input_shape { dim: 1 dim: 1 dim: 4 dim: 4 }
layer { name: "pad" type: "Pooling" bottom: "x" top: "pad" pooling_param { kernel_size: 3 pad: 2 } }
layer { name: "power" type: "Power" bottom: "pad" top: "power" power_param { scale: 900 shift: 900 } }
layer { name: "crop" type: "Crop" bottom: "power" bottom: "x" top: "crop" crop_param { axis: 2 offset: 1 } }
layer { name: "scores" type: "Sigmoid" bottom: "crop" top: "scores" }
"""


def test_last_nodes_may_read_the_shape_of_an_input(tmp_path: Path) -> None:
    (tmp_path / "a.prototxt").write_text(CROPPED)
    net = anylayer.read(tmp_path / "a.prototxt")
    net.write(tmp_path / "a.onnx")
    x = {"x": np.arange(16, dtype=np.float32).reshape(1, 1, 4, 4)}
    found = anylayer.diff(net, tmp_path / "a.onnx", x)
    assert found.same and [o.alone for o in found.outputs] == [True]
    values = CROPPED.replace('type: "Crop"', 'type: "Eltwise"').replace("crop_param { axis: 2 offset: 1 }", "")
    (tmp_path / "b.prototxt").write_text(values.replace("pad: 2", "pad: 1"))
    added = anylayer.read(tmp_path / "b.prototxt")
    added.write(tmp_path / "b.onnx")
    assert anylayer.diff(added, tmp_path / "b.onnx", x).same


def test_weights_that_the_inputs_do_not_read_are_named(tmp_path: Path) -> None:
    info, data = onnx.helper.make_tensor_value_info, onnx.numpy_helper.from_array
    nodes = [
        onnx.helper.make_node("Gather", ["table", "i"], ["rows"], "embedding"),
        onnx.helper.make_node("Abs", ["rows"], ["y"], "abs"),
    ]
    graph = onnx.helper.make_graph(nodes, "net", [info("i", 7, [1, 6])], [info("y", 1, [1, 6, 8])])
    table = np.random.default_rng(0).standard_normal((1000, 8)).astype(np.float32)
    files = [tmp_path / f"{name}.onnx" for name in "ab"]
    for file, factor in zip(files, (1, 2)):
        table[700] *= factor
        del graph.initializer[:]
        graph.initializer.append(data(table, "table"))
        onnx.save(onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 13)]), file)
    result = anylayer.diff(*files, {"i": np.arange(6).reshape(1, 6)})
    assert result.same
    assert "other parameters or weights, but the same numbers for these inputs: embedding" in " ".join(
        result.lines(None)
    )
    assert not anylayer.diff(*files, {"i": np.arange(698, 704).reshape(1, 6)}).same


def test_missing_output_is_a_difference(tmp_path: Path) -> None:
    text = ONE.format(type="ReLU", params="")
    (tmp_path / "a.prototxt").write_text(text + 'layer { name: "s" type: "Sigmoid" bottom: "x" top: "s" }')
    (tmp_path / "b.prototxt").write_text(text)
    found = anylayer.diff(tmp_path / "a.prototxt", tmp_path / "b.prototxt")
    assert not found.same and found.verdict == "output 's' of A has no counterpart in B"
    found = anylayer.diff(tmp_path / "b.prototxt", tmp_path / "a.prototxt")
    assert found.notes == ["output 's' of B has no counterpart in A, and was not compared"]


def test_given_inputs_are_used_in_both_layouts() -> None:
    x = np.random.default_rng(3).random((1, 3, 16, 16), np.float32)
    found = anylayer.diff(ONNX, ONNX2TF, {"x": x})
    assert found.same and "another layout" in str(found)
    with pytest.raises(InputError, match="A has no input 'y'"):
        anylayer.diff(ONNX, ONNX2TF, {"y": x})


def test_result_is_plain_data_and_fits_80_columns(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = broken(TF2ONNX, tmp_path, attribute(FOLDED, "pads", [1, 1, 0, 0]), renamed=False)
    monkeypatch.chdir(tmp_path)  # a path is not cut
    found = anylayer.diff(KERAS, file.name)
    data = json.loads(json.dumps(found.to_dict(), allow_nan=False))
    assert data["same"] is False
    assert [row["a"]["names"] for row in data["rows"] if row["first"]] == [["conv1"]]
    assert max(map(len, found.lines(80, every=True))) <= 80
