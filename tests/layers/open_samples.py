"""The inputs on which tests.layers.open_sizes tries the layers of each format: those of the format's own tests."""

from __future__ import annotations

import importlib
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np

import anylayer
from anylayer.api import Net
from anylayer.errors import AnyLayerError
from anylayer.layer import Registry
from anylayer.network import Array, Network, TensorType
from tests.layers.harness import Case, cases

FORMATS = {
    "caffe": "Caffe",
    "darknet": "Darknet",
    "tensorflow": "TensorFlow",
    "tflite": "TFLite",
    "mxnet": "MXNet",
    "keras": "Keras",
    "onnx": "ONNX",
    "openvino": "OpenVINO IR",
}


_BASE_CLASS = "Layer"
"""The base class of Keras, which networks of users do not contain."""


@dataclass(frozen=True, eq=False)
class Sample:
    """A network that consists of one layer of a type, and its inputs."""

    type: str
    net: Net
    inputs: list[Array]
    tolerance: float | None = None

    @property
    def names(self) -> list[str]:
        """The names of the inputs."""
        return list(self.net.network.inputs)

    @property
    def is_channels_last(self) -> bool:
        """Whether the layer takes (N, H, W, C), as those of TensorFlow and Keras do by default."""
        network = self.net.network
        params = repr([node.params for node in network.nodes])
        channels_first = "NCHW" in params or "channels_first" in params
        return network.format in ("tensorflow", "tflite", "keras") and not channels_first


def samples(format: str) -> Iterator[Sample]:
    """Yield the samples of a format. A network that cannot be read is left out."""
    with tempfile.TemporaryDirectory() as folder:
        own = {
            "darknet": _darknet,
            "tensorflow": _tensorflow,
            "mxnet": _mxnet,
            "tflite": _tflite,
            "onnx": _onnx,
            "openvino": _openvino,
        }
        yield from own[format](Path(folder)) if format in own else _of_cases(format)


def _of_cases(format: str) -> Iterator[Sample]:
    for _, case in cases():
        if case.format == format and case.inputs and case.type != _BASE_CLASS:
            yield Sample(case.type, _net(case), list(case.inputs), case.tolerance)


def _net(case: Case) -> Net:
    node = case.node()
    types: dict[str, TensorType | None] = {
        f"in{i}": TensorType.of(x.shape, x.dtype) for i, x in enumerate(case.inputs)
    }
    outputs = {name: name for name in node.outputs}
    return Net(Network("case", case.format, types, [node], outputs, dialect=case.dialect), {})


def _darknet(folder: Path) -> Iterator[Sample]:
    """Yield the last section of each recorded network, with the values that it gets as inputs."""
    from tests.layers.darknet.recorded import recorded

    for case in recorded().values():
        net = case.read(folder)
        node = net.network.nodes[-1]
        names, shapes = [*{*node.inputs} - {"data"}] or None, {"data": case.x.shape}
        values = {"data": case.x, **net.compile("numpy", outputs=names, shapes=shapes)({"data": case.x})}
        node.blobs = [np.array(blob) for blob in node.blobs]  # the file that is mapped is written again
        types: dict[str, TensorType | None] = {name: TensorType.of(values[name].shape) for name in node.inputs}
        alone = replace(net.network, inputs=types, nodes=[node], outputs={node.name: node.name})
        yield Sample(node.type, Net(alone, {}), [values[name] for name in types])


def _mxnet(folder: Path) -> Iterator[Sample]:
    """Yield the recorded networks of one operator."""
    from tests.layers.mxnet.recorded import FILES, recorded

    types = Registry.of("mxnet").types()
    for case in chain.from_iterable(recorded(file).values() for file in FILES):
        channels_last = b'HWC"' in case.symbol  # whose last size is that of the weights
        if case.type in types and case.inputs and not channels_last:
            net = case.read(folder)
            for node in net.network.nodes:
                node.blobs = [np.array(blob) for blob in node.blobs]  # the file that is mapped is written again
            shapes = {name: TensorType.of(x.shape, x.dtype) for name, x in case.inputs.items()}
            net = Net(replace(net.network, inputs={**shapes}), {})
            yield Sample(case.type, net, [case.inputs[name] for name in net.network.inputs])


def _tflite(folder: Path) -> Iterator[Sample]:
    """Yield the recorded models of one operator."""
    from tests.layers.tflite.recorded import recorded

    for i, case in enumerate(recorded().values()):
        path = folder / f"{i}.tflite"  # a file of its own: its constants are mapped into memory
        path.write_bytes(case.model)
        net = anylayer.read(path)
        if case.inputs:
            arrays = {**net.network.initial, **case.inputs}
            yield Sample(case.name.split()[0], net, [arrays[name] for name in net.network.inputs])


def _tensorflow(folder: Path) -> Iterator[Sample]:
    from tests.layers.tensorflow.recorded import recorded

    known = Registry.of("tensorflow").types()  # other cases are graphs of several layers
    for i, case in enumerate(recorded().values()):
        path = folder / f"{i}.pb"  # a file of its own: its constants may be mapped into memory
        path.write_bytes(case.graph)
        try:
            net = anylayer.read(path)
        except AnyLayerError:
            continue
        arrays = {f"in{j}": np.asarray(x) for j, x in enumerate(case.inputs)}
        type, network = case.name.split()[0], net.network
        if type in known and {*arrays} == {*network.inputs} and None not in network.inputs.values():
            own = [n for n in network.nodes if n.type == "Const" and n.name.split("/")[-1] in _DATA.get(type, ())]
            arrays.update((n.outputs[0], n.blobs[0]) for n in own)
            types = {name: TensorType.of(x.shape, x.dtype) for name, x in arrays.items()}
            nodes = [n for n in network.nodes if n not in own]
            net = Net(replace(network, inputs=types, nodes=nodes), {})
            yield Sample(type, net, [*arrays.values()])


_DATA = {
    **dict.fromkeys(("BlockLSTM", "BlockLSTMV2", "LSTMBlockCell"), ("cs_prev", "h_prev")),
    "CropAndResize": ("box_ind",),
    "Dequantize": ("Const",),
    "ReverseSequence": ("seq_lengths",),
}
"""The inputs that are constants in the recorded graphs, and depend on the network's inputs in networks."""


def _onnx(folder: Path) -> Iterator[Sample]:
    """Yield ONNX's own tests of single operators. Weights and integer settings are constants."""
    from onnx import ModelProto, defs, numpy_helper

    from tests.readers.onnx.node_tests import node_tests
    from tests.readers.onnx.test_node_tests import array, excuses

    excused = excuses()
    for i, case in enumerate(node_tests()):
        model = ModelProto.FromString(case.model.SerializeToString())  # a copy: the tests share the model
        nodes = model.graph.node
        if len(nodes) != 1 or case.name in excused or "_expanded" in case.name:
            continue
        op, graph = nodes[0].op_type, model.graph
        formal = defs.get_schema(op).inputs
        feed = {given.name: array(v) for given, v in zip(graph.input, case.data_sets[0][0])}
        for k, name in enumerate(nodes[0].input):
            if name in feed and k and _is_setting(feed[name], op, formal[min(k, len(formal) - 1)].name):
                graph.initializer.append(numpy_helper.from_array(feed.pop(name), name))
        kept = [given for given in graph.input if given.name in feed]
        del graph.input[:]
        graph.input.extend(kept)
        path = folder / f"{i}.onnx"
        path.write_bytes(model.SerializeToString())
        sample = _read(op, path, [*feed], [*feed.values()])
        if sample is not None:
            yield sample


_WEIGHTS = frozenset(
    ("W", "R", "P", "scale", "bias", "input_mean", "input_var", "weights", "slope", "roi", "scales")
)
"""The names in ONNX's schemas of inputs that are weights or settings in networks."""
_PRODUCTS = frozenset(
    ("Conv", "ConvTranspose", "DeformConv", "Gemm", "GRU", "LSTM", "MatMul", "MatMulInteger", "RNN")
)
"""Operators whose inputs B and C are weights in networks."""


def _is_setting(x: Any, op: str, name: str) -> bool:
    """Return whether an input of an operator is a constant in networks: weights, axes, sizes."""
    if not isinstance(x, np.ndarray):
        return False
    weights = name in _WEIGHTS or (name in ("B", "C") and op in _PRODUCTS)
    return weights or x.size == 0 or (x.ndim < 2 and x.dtype.kind in "iu")


def _openvino(folder: Path) -> Iterator[Sample]:
    """Yield the models of the tests in tests/layers/openvino that have one operation besides constants."""
    from tests.layers.openvino.harness import save

    number = 0
    for path in sorted((Path(__file__).parent / "openvino").glob("test_*.py")):
        module = importlib.import_module(f"tests.layers.openvino.{path.stem}")
        for test in getattr(module, "CASES", {}).values():
            if not hasattr(test, "sample"):
                continue
            build, inputs, tolerance = test.sample
            number += 1
            file = folder / f"{number}.xml"
            save(build, inputs, file)
            sample = _read("", file, [f"in{i}" for i in range(len(inputs))], list(inputs), tolerance)
            if sample is not None:
                yield sample


def _read(
    type: str, path: Path, names: list[str], values: list[Any], tolerance: float | None = None
) -> Sample | None:
    """Return the sample of a file, or None where it cannot be read, or has inputs that are not arrays.

    type: the type of its layer; "" stands for that of the only one that is not a constant.
    """
    try:
        net = anylayer.read(path)
    except AnyLayerError:
        return None
    feed = {n: x for n, x in zip(names, values) if isinstance(x, np.ndarray) and x.dtype != object}
    types = {n.type for n in net.network.nodes} - {"Const", "Constant", "Parameter", "Result"}
    if {*feed} != {*net.network.inputs} or None in net.network.inputs.values() or (not type and len(types) != 1):
        return None
    return Sample(type or types.pop(), net, [feed[name] for name in net.network.inputs], tolerance)
