"""The engine ncnn: each operator compared with NumPy and ONNX Runtime, refusals, and its choice by "auto"."""

from __future__ import annotations

import importlib
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tools.reference import REFERENCE, needs_data

import anylayer
from anylayer import ops
from anylayer.engines import load_engine
from anylayer.errors import EngineError
from anylayer.graph import Graph
from anylayer.network import TensorType
from anylayer.runtime import auto as auto_file
from anylayer.runtime import open as open_file
from anylayer.runtime import run as run_file
from anylayer.testing import assert_same, check_function
from anylayer.tracing import record, trace
from anylayer.writers.ncnn import LOWERINGS, to_ncnn
from tests.threads import in_threads

pytestmark = pytest.mark.needs("ncnn", "openvino")

DEEP = 1e-4


def noise(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def traced(function: Callable[..., Any], *inputs: np.ndarray) -> Graph:
    return trace(lambda arrays: [function(*arrays)], [TensorType.of(x.shape, x.dtype) for x in inputs])


X = noise(1, 8, 9, 12)
W, B = noise(16, 8, 3, 3, seed=1), noise(16, seed=2)
BY_CHANNEL, BY_CELL = noise(1, 16, 1, 1, seed=3), noise(1, 1, 9, 12, seed=4)

CASES: dict[str, list[Callable[[Any], Any]]] = {  # operator -> functions whose trace contains it
    "Conv": [
        lambda x: ops.conv(x, W, B),
        lambda x: ops.conv(x, W, pads=1),
        lambda x: ops.conv(x, W, B, pads=[0, 1, 2, 3], strides=(2, 3)),
        lambda x: ops.conv(x, W, B, pads=2, dilations=(2, 1)),
        lambda x: ops.conv(x, noise(16, 8, 1, 5), B),
        lambda x: ops.conv(x, noise(16, 4, 3, 3), B, group=2, pads=1),
        lambda x: ops.conv(x, noise(8, 1, 3, 3), noise(8), group=8, pads=1),
        lambda x: ops.conv(x, noise(16, 1, 5, 3), group=8, strides=2),
        lambda x: ops.relu(ops.conv(x, W, B) * BY_CHANNEL + BY_CHANNEL),
        lambda x: ops.leaky_relu(ops.conv(x, W) / np.float32(3) - BY_CHANNEL[0], 0.1),
        lambda x: BY_CHANNEL - ops.conv(x, W, B),
        lambda x: BY_CELL * ops.conv(x, W, B, pads=1),
        lambda x: (y := ops.conv(x, W, B)) * BY_CHANNEL + y,
    ],
    "ConvTranspose": [
        lambda x: ops.conv_transpose(x, noise(8, 4, 4, 4), strides=2, pads=1),
        lambda x: ops.conv_transpose(x, noise(8, 4, 3, 5), B[:4], strides=(1, 3), pads=[0, 1, 1, 2]),
        lambda x: ops.conv_transpose(x, noise(8, 4, 3, 3), dilations=2, output_padding=1, strides=2),
        lambda x: ops.conv_transpose(x, noise(8, 1, 4, 4), group=8, strides=2, pads=1),
        lambda x: ops.conv_transpose(x, noise(8, 3, 4, 4), group=2, strides=2),
        lambda x: ops.relu(ops.conv_transpose(x, noise(8, 4, 4, 4), B[:4]) * BY_CHANNEL[:, :4]),
    ],
    "MaxPool": [
        lambda x: ops.max_pool(x, 2, strides=2),
        lambda x: ops.max_pool(x, (3, 2), strides=(2, 3), pads=[1, 0, 1, 1], ceil_mode=True),
        lambda x: ops.max_pool(x, (9, 12)),
    ],
    "LRN": [
        lambda x: ops.lrn(x, 5, alpha=0.3, beta=0.75, bias=2.0),
        lambda x: ops.lrn(x, 3, alpha=0.3, beta=0.5),
    ],
    "AveragePool": [
        lambda x: ops.average_pool(x, 2, strides=2),
        lambda x: ops.average_pool(x, 3, strides=2, pads=1),
        lambda x: ops.average_pool(x, 3, strides=2, pads=1, ceil_mode=True),
        lambda x: ops.average_pool(x, 3, strides=2, pads=1, ceil_mode=True, count_include_pad=True),
        lambda x: ops.average_pool(x, (4, 3), pads=[0, 1, 2, 0], count_include_pad=True),
        lambda x: ops.average_pool(x, (9, 12)),
    ],
    "Resize": [
        lambda x: ops.resize(ops.resize(x, (80, 90), coordinates="align_corners"), (33, 150)),
        lambda x: ops.resize(ops.resize(x, (80, 90)), (120, 40), coordinates="align_corners"),
        lambda x: ops.resize(ops.resize(x, (80, 90)), (120, 40), coordinates="pytorch_half_pixel"),
        lambda x: ops.resize(x, (80, 100), coordinates="asymmetric"),
        lambda x: ops.resize(x, (12, 5), mode="cubic"),
        lambda x: ops.resize(x.transpose(0, 2, 3, 1), (12, 30), axes=(1, 2)),
        lambda x: ops.resize(
            x.transpose(0, 2, 3, 1), (18, 24), axes=(1, 2), mode="nearest", coordinates="asymmetric"
        ),
    ],
    "GridSample": [
        lambda x: ops.grid_sample(x, x[:, :2].transpose(0, 2, 3, 1) * np.float32(3)),
        lambda x: ops.grid_sample(x, x[:, :2].transpose(0, 2, 3, 1), align_corners=True),
        lambda x: ops.grid_sample(x[:, :3], noise(1, 5, 7, 2), padding="border") * np.float32(2),
        lambda x: ops.grid_sample(x, noise(1, 5, 7, 2) * 9, padding="border", align_corners=True),
    ],
    "Gather": [
        lambda x: np.take(x, np.arange(18) // 2, 2),
        lambda x: np.take(np.take(x, np.arange(36) // 3, 3), np.arange(63) // 7, 2),
    ],
    "Gemm": [
        lambda x: ops.gemm(x.reshape(1, -1), noise(8 * 9 * 12, 5), B[:5]),
        lambda x: ops.gemm(x.reshape(72, 12), noise(7, 12), trans_b=True),
    ],
    "MatMul": [
        lambda x: x @ noise(12, 5),
        lambda x: noise(7, 9) @ x,
        lambda x: noise(8, 4, 9) @ x,
        lambda x: x @ x.transpose(0, 1, 3, 2),
        lambda x: x[:, 0] @ x[0, 1].T,
    ],
    "Softmax": [
        lambda x: ops.softmax(x),
        lambda x: ops.softmax(x, axis=1),
        lambda x: ops.softmax(x.reshape(1, -1), axis=1),
    ],
    "ReduceSum": [lambda x: x.sum(axis=(1, 3)), lambda x: x.sum()],
    "ReduceMean": [lambda x: x.mean(axis=(2, 3), keepdims=True), lambda x: x.mean(axis=0)],
    "ReduceMax": [lambda x: x.max(axis=2), lambda x: x.max(axis=(0, 1))],
    "ReduceMin": [lambda x: x.min(axis=-1)],
    "ReduceProd": [lambda x: x.prod(axis=1)],
    "Add": [
        lambda x: x + x,
        lambda x: x + BY_CELL,
        lambda x: np.float32(0.1) + x,
        lambda x: x[:, :1] + x[:, :, :1],
    ],
    "Sub": [lambda x: x - noise(12), lambda x: np.float32(3) - x, lambda x: noise(8, 1, 1) - x],
    "Mul": [
        lambda x: x * x.max(axis=(2, 3), keepdims=True),
        lambda x: x.reshape(8, 1, 9, 12) * noise(1, 4, 1, 12),
    ],
    "Div": [
        lambda x: x / np.float32(7),
        lambda x: x / (np.abs(x) + np.float32(1e-3)),
        lambda x: np.float32(1) / (np.float32(1) + np.exp(x * np.float32(-20))),
        lambda x: x / np.sqrt((x * x).sum(axis=1, keepdims=True) + np.float32(1e-10)),
        lambda x: x / noise(8, 1, 1),
    ],
    "Max": [lambda x: np.maximum(x, BY_CELL), lambda x: np.maximum(np.maximum(x, -x), x[:, :1])],
    "Min": [lambda x: np.minimum(x, np.float32(0.2))],
    "Pow": [
        lambda x: (x * x + np.float32(0.1)) ** np.float32(-0.75),
        lambda x: x / (x * x + np.float32(1)) ** np.float32(0.75),
    ],
    "Relu": [ops.relu],
    "LeakyRelu": [lambda x: ops.leaky_relu(x, 0.3)],
    "Elu": [lambda x: ops.elu(x, 0.7)],
    "Sigmoid": [ops.sigmoid],
    "Tanh": [np.tanh],
    "HardSigmoid": [lambda x: ops.hard_sigmoid(x, 0.3, 0.4)],
    "Clip": [lambda x: np.clip(x, -0.5, 1.5)],
    "Abs": [np.abs],
    "Neg": [np.negative],
    "Floor": [lambda x: np.floor(x * 3)],
    "Ceil": [lambda x: np.ceil(x * 3)],
    "Round": [lambda x: np.round(x * 2)],
    "Sqrt": [lambda x: np.sqrt(np.abs(x))],
    "Exp": [np.exp],
    "Expand": [lambda x: np.broadcast_to(x[:, :, :1], (1, 8, 5, 12)) + 1],
    "Reshape": [lambda x: x.reshape(1, 2, 4, 9, 6, 2), lambda x: x.reshape(-1)],
    "Transpose": [
        lambda x: x.transpose(0, 2, 3, 1),
        lambda x: x.transpose(3, 1, 0, 2),
        lambda x: x.reshape(1, 2, 4, 9, 12).transpose(0, 2, 1, 3, 4).reshape(x.shape),
        lambda x: x.reshape(1, 8, 3, 3, 6, 2).transpose(0, 3, 5, 1, 2, 4)[:, :, 0],
        lambda x: x.reshape(4, 2, 9, 12).transpose(3, 0, 2, 1),
        lambda x: x.reshape(4, 2, 9, 12).transpose(1, 0, 3, 2),
    ],
    "Concat": [
        lambda x: np.concatenate([x, ops.relu(x), x[:, :3]], axis=1),
        lambda x: np.concatenate([x, x * 2], axis=0),
        lambda x: np.concatenate([x, BY_CELL.repeat(8, 1)], axis=-1),
    ],
    "Slice": [
        lambda x: x[:, 1:5, 2:, 3:-2],
        lambda x: x.reshape(2, 4, 9, 12)[1:],
        lambda x: x.reshape(1, 2, 4, 3, 3, 12)[:, :, 1:3, :, :, 2:],
    ],
    "Split": [lambda x: np.split(x, [2, 5], axis=1)[1], lambda x: np.split(x.reshape(8, 9, 12), 2)[1]],
    "Pad": [
        lambda x: np.pad(x, [(0, 0), (1, 2), (0, 1), (2, 0)]),
        lambda x: np.pad(x[0, 0], [(1, 2), (0, 3)], constant_values=np.float32(7)),
    ],
    "DepthToSpace": [
        lambda x: ops.depth_to_space(x, 2),
        lambda x: ops.depth_to_space(x, 2, mode="CRD"),
    ],
    "SpaceToDepth": [lambda x: ops.space_to_depth(x, 3)],
    "Identity": [lambda x: ops.resize(x, (9, 12)) + 1],
}


def recorded(function: Callable[..., Any]) -> set[str]:
    return {o.op for o in traced(function, X).ops}


@pytest.mark.parametrize(
    ("name", "function"), [pytest.param(k, f, id=f"{k}-{i}") for k, fs in CASES.items() for i, f in enumerate(fs)]
)
def test_lowering_matches_numpy(name: str, function: Callable[[Any], Any]) -> None:
    assert name in recorded(function)
    check_function(function, X, engines=["onnxruntime", "ncnn"])


@pytest.mark.parametrize("slopes", [(), (8, 1, 1)])
def test_operators_that_ncnn_lacks_are_computed_by_others(slopes: tuple[int, ...]) -> None:
    values = np.full(slopes, -0.25, np.float32)
    functions = [
        lambda x: ops.prelu(x, values),
        lambda x: ops.gelu(x, "tanh"),
        lambda x: ops.lrn(x, 2),
    ]
    for function in functions:
        check_function(function, X, engines=["ncnn"])


def by_hand(op: str, x: np.ndarray, shape: tuple[int, ...], *constants: Any, **attrs: Any) -> Graph:
    """Return a graph of one operator."""
    graph = Graph()
    value = graph.input("x", x.shape, x.dtype)
    inputs = [value, *(None if c is None else graph.constant(np.asarray(c)) for c in constants)]
    graph.outputs = graph.emit(op, inputs, [(shape, np.float32)], attrs)
    return graph


HAND = [
    by_hand("Pad", X, (1, 8, 12, 15), [0, 0, 1, 2, 0, 0, 2, 1], mode="edge"),
    by_hand("Pad", X, (1, 8, 12, 15), [0, 0, 1, 2, 0, 0, 2, 1], mode="reflect"),
    by_hand("Pow", X, X.shape, np.float32(2)),
    by_hand("Pow", X * X, X.shape, np.float32(0.5)),
    by_hand(
        *("Resize", X, (1, 8, 18, 36), None, None, np.array([1, 8, 18, 36])),
        mode="nearest",
        coordinate_transformation_mode="asymmetric",
        nearest_mode="floor",
    ),
    by_hand("Gather", X, (1, 3, 9, 12), [4, 5, 6], axis=1),
    by_hand("Gather", X, (1, 8, 9), -2, axis=3),
    by_hand("GlobalAveragePool", X, (1, 8, 1, 1)),
    by_hand("ReduceL1", X, (1, 8), [2, 3], keepdims=0),
    by_hand("ReduceL2", X, (1, 1, 9, 12), [1], keepdims=1),
    by_hand("ReduceSumSquare", X, (1, 8, 9), [3], keepdims=0),
    by_hand("Clip", X, X.shape, None, np.float32(0.5)),
    by_hand("Flatten", X, (1, 864), axis=1),
    by_hand("Squeeze", X, (8, 9, 12), [0]),
    by_hand("Unsqueeze", X, (1, 8, 1, 9, 12), [2]),
    by_hand("Slice", X, (1, 8, 4, 12), [-5], [-1], [-2], [1]),
    by_hand("Gemm", X.reshape(72, 12), (72, 5), noise(12, 5), noise(5), alpha=0.5, beta=2.0),
]


@pytest.mark.parametrize("graph", HAND, ids=lambda g: g.ops[0].op)
def test_lowering_of_operators_that_numpy_does_not_record(graph: Graph) -> None:
    x = np.ascontiguousarray(X.reshape(graph.inputs[0].shape))
    want = load_engine("onnxruntime").compile(graph)([x])
    got = load_engine("ncnn").compile(graph)([x])
    assert_same(got[0], want[0], graph.ops[0].op)


def test_repetition_by_any_factor() -> None:
    """ncnn's own resizing is wrong for many factors, because 41 * (1 / 41) is below 1."""
    for times in (2, 3, 7, 10, 25, 41, 47, 49):
        x = noise(1, 2, 3, times)
        how = {"mode": "nearest", "coordinates": "asymmetric"}
        for size in ((3 * times, times * times), (3, times * times), (3 * times, times)):
            check_function(lambda x, s=size, h=how: ops.resize(x, s, **h), x, engines=["ncnn"])
        check_function(lambda x, t=times: np.take(x, np.arange(2 * t) // t, 1), x, engines=["ncnn"])


def test_every_lowering_has_a_case() -> None:
    assert set(LOWERINGS) <= {*CASES, *(g.ops[0].op for g in HAND)}


def test_broadcasting_slicing_and_transposition_of_random_shapes() -> None:
    rng = np.random.default_rng(5)
    functions = (np.add, np.subtract, np.multiply, np.maximum)
    for _ in range(60):
        shape = tuple(int(n) for n in rng.integers(1, 5, rng.integers(1, 5)))
        left, right = (np.where(rng.random(len(shape)) < 0.6, shape, 1) for _ in range(2))
        a, b = noise(*left), noise(*right[rng.integers(0, len(shape)) :])
        function = functions[rng.integers(4)]
        check_function(lambda x, y, f=function: f(x, y), a, b, engines=["ncnn"])
        order = tuple(int(i) for i in rng.permutation(len(shape)))
        cut = tuple(slice(int(rng.integers(0, n)), None) for n in shape)
        check_function(lambda x, o=order, c=cut: x[c].transpose(o), noise(*shape), engines=["ncnn"])


REFUSED: list[tuple[str, Callable[[], Graph]]] = [
    ("operator 'Conv': batch 2, expected 1", lambda: traced(lambda x: ops.conv(x, W), noise(2, 8, 5, 5))),
    ("operator 'Conv': an input of 3 axes", lambda: traced(lambda x: ops.conv(x, noise(4, 8, 3)), noise(1, 8, 5))),
    ("operator 'Conv': a computed kernel", lambda: traced(ops.conv, X, W)),
    ("operator 'MaxPool': dilations [2, 2]", lambda: traced(lambda x: ops.max_pool(x, 2, dilations=2), X)),
    ("operator 'Log'", lambda: traced(np.log, X)),
    ("operator 'Div': a division by values that may be 0", lambda: traced(lambda x: 1 / x, X)),
    ("operator 'Div': a division by 0", lambda: traced(lambda x: x / np.zeros(12, np.float32), X)),
    (
        "operator 'Pow': exponent 0.75 of values that may be 0",
        lambda: traced(lambda x: np.abs(x) ** np.float32(0.75), X),
    ),
    ("operator 'Pow': an exponent that is not a constant number", lambda: traced(lambda x: x**x, X)),
    ("operator 'Slice': steps [2]", lambda: traced(lambda x: x[:, ::2], X)),
    (
        "operator 'Transpose': 5 axes that move separately (at most 4 are possible)",
        lambda: traced(lambda x: x.transpose(4, 3, 2, 1, 0), noise(2, 3, 2, 3, 2)),
    ),
    ("operator 'Pad': 4 axes (at most 3 are possible)", lambda: traced(lambda x: np.pad(x, 1), noise(2, 2, 2, 2))),
    (
        "operator 'Pad': padding with -inf",
        lambda: traced(lambda x: np.pad(x, 1, constant_values=-np.inf), X[0, 0]),
    ),
    (
        "operator 'Resize': scales that do not give whole sizes",
        lambda: traced(
            lambda x: record("Resize", [x, None, np.array([1, 1, 1.7, 1.7])], (1, 2, 8, 8), np.float32),
            noise(1, 2, 5, 5),
        ),
    ),
    (
        "operator 'GridSample': mode=nearest, expected bilinear",
        lambda: traced(lambda x: ops.grid_sample(x, noise(1, 5, 7, 2), mode="nearest"), X),
    ),
    (
        "operator 'GridSample': padding_mode=reflection: ncnn reflects far positions once",
        lambda: traced(lambda x: ops.grid_sample(x, noise(1, 5, 7, 2), padding="reflection"), X),
    ),
    (
        "operator 'Gather': indices that neither are consecutive nor repeat",
        lambda: traced(lambda x: x[:, [2, 0, 5]], X),
    ),
    ("accepts only float32 inputs of static size, or of", lambda: traced(lambda x: x + 1, np.arange(3))),
]


MAPS = """
layer { name: "data" type: "Input" top: "data" input_param { shape { dim: 1 dim: 3 dim: 21 dim: 30 } } }
layer { name: "a" type: "Convolution" bottom: "data" top: "a" convolution_param { num_output: 5 kernel_size: 3 } }
layer { name: "r" type: "ReLU" bottom: "a" top: "a" }
layer { name: "p" type: "Pooling" bottom: "a" top: "p"
  pooling_param { pool: MAX kernel_size: 2 stride: 2 pad: 1 } }
layer { name: "u" type: "Deconvolution" bottom: "p" top: "u"
  convolution_param { num_output: 5 kernel_size: 6 stride: 2 } }
layer { name: "crop" type: "Crop" bottom: "u" bottom: "data" top: "crop"
  crop_param { axis: 2 offset: 2 offset: 1 } }
layer { name: "both" type: "Concat" bottom: "crop" bottom: "data" top: "both" }
"""


@pytest.mark.parametrize("engine", ["ncnn", "auto"])
def test_one_program_serves_maps_of_every_size(
    tmp_path: Path, engine: str, tried: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    seconds = {"ncnn": 1.0, "onnxruntime": 2.0, "openvino": 3.0}
    monkeypatch.setattr(open_file, "timed_at_new_sizes", lambda calls, *_: {name: seconds[name] for name in calls})
    net = read(tmp_path, MAPS)
    model, definition = net.compile(engine, {"data": (1, 3, "H", "W")}), net.compile("numpy")
    monkeypatch.setattr(model, "_compile", None)  # no size gets a program of its own
    assert model.open_sizes is not None and model.engine == "ncnn"
    for size in [(20, 31), (5, 5), (97, 6), (64, 128), (20, 31)]:
        x = noise(1, 3, *size)
        assert_same(model(x)["both"], definition(x)["both"], tolerance=DEEP)


@pytest.mark.parametrize(
    ("layer", "text"),
    [
        ('type: "Softmax" bottom: "p"', "a size that varies"),
        (
            'type: "Crop" bottom: "data" bottom: "p" crop_param { axis: 2 }',
            "the size of a slice that is not that of",
        ),
    ],
)
def test_layer_that_needs_a_static_size_is_refused(tmp_path: Path, layer: str, text: str) -> None:
    pool = 'layer { name: "p" type: "Pooling" bottom: "data" top: "p" pooling_param { kernel_size: 3 stride: 3 } }'
    net = read(tmp_path, "\n".join([MAPS.splitlines()[1], pool, f'layer {{ name: "l" top: "l" {layer} }}']))
    with pytest.warns(UserWarning, match=text):
        assert net.compile("ncnn", {"data": (1, 3, "H", "W")}).open_sizes is None


@pytest.mark.parametrize(("text", "graph"), REFUSED, ids=[t for t, _ in REFUSED])
def test_unsupported_operators_are_refused(text: str, graph: Callable[[], Graph]) -> None:
    with pytest.raises(EngineError, match=re.escape(text)):
        to_ncnn(graph())


def test_refusal_names_the_layer(tmp_path: Path) -> None:
    (tmp_path / "n.prototxt").write_text(
        'layer { name: "d" type: "Input" top: "d" input_param { shape { dim: 1 dim: 4 dim: 5 dim: 5 } } }\n'
        'layer { name: "best" type: "ArgMax" bottom: "d" top: "b" argmax_param { axis: 1 } }\n'
    )
    with pytest.raises(EngineError, match=r"engine 'ncnn' cannot express operator '\w+' \(best\)"):
        anylayer.read(tmp_path / "n.prototxt").compile(engine="ncnn")


def test_inputs_are_not_changed_and_outputs_belong_to_the_caller() -> None:
    def function(x: Any) -> list[Any]:
        y = ops.relu(x)
        return [y, x, ops.sigmoid(x.reshape(-1)), y, np.ones(3, np.float32), y + 1]

    program = load_engine("ncnn").compile(trace(lambda a: function(*a), [TensorType.of(X.shape, X.dtype)]))
    x = X.copy()
    first = program([x])
    kept = [y.copy() for y in first]
    second = program([np.zeros_like(X)])
    assert np.array_equal(x, X)
    for got, same, want in zip(first, kept, function(X)):
        assert np.array_equal(got, same)
        assert_same(got, want)
    assert not np.shares_memory(first[0], first[3])
    assert second[5].max() == 1


def test_outputs_are_written_to_buffers() -> None:
    program = load_engine("ncnn").compile(traced(lambda x: ops.conv(x, W, B), X))
    buffer = np.empty((1, 16, 7, 10), np.float32)
    assert program([X], [buffer])[0] is buffer
    assert_same(buffer, ops.conv(X, W, B))


def test_input_that_is_not_contiguous() -> None:
    program = load_engine("ncnn").compile(traced(lambda x: ops.conv(x, W, B), X))
    turned = np.ascontiguousarray(X.transpose(0, 1, 3, 2)).transpose(0, 1, 3, 2)
    assert_same(program([turned])[0], ops.conv(X, W, B))


@pytest.mark.parametrize("width", [5, 6, 7, 8])
@pytest.mark.parametrize(("group", "kernel"), [(2, 1), (2, 3), (3, 3), (6, 3)])
def test_grouped_convolution_reads_the_networks_input(width: int, group: int, kernel: int) -> None:
    x, w = noise(1, 6, 5, width), noise(12, 6 // group, kernel, kernel, seed=1)
    check_function(lambda x: ops.conv(x, w, group=group), x, engines=["ncnn"])


def test_forked_process_computes_on_one_thread() -> None:
    code = (
        "import os, sys\nimport numpy as np\nfrom anylayer import ops\nfrom anylayer.engines import load_engine\n"
        "from anylayer.network import TensorType\nfrom anylayer.tracing import trace\n"
        "x = np.ones((1, 16, 64, 64), np.float32)\nw = np.ones((16, 16, 3, 3), np.float32)\n"
        "graph = trace(lambda a: [ops.conv(a[0], w)], [TensorType.of(x.shape, x.dtype)])\n"
        "program = load_engine('ncnn').compile(graph, 2)\nprogram([x])\n"
        "if (child := os.fork()) == 0:\n"
        "    again = load_engine('ncnn').compile(graph, 2)\n"
        "    os._exit(int(not np.allclose([program([x])[0], again([x])[0]], 144)))\n"
        "sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))\n"
    )
    subprocess.run([sys.executable, "-c", code], timeout=60, check=True)


def test_input_without_consumers() -> None:
    program = load_engine("ncnn").compile(traced(lambda x, y: y * 2, X, noise(1, 3)))
    assert_same(program([X, noise(1, 3)])[0], noise(1, 3) * 2)


def test_program_is_safe_for_several_threads() -> None:
    program = load_engine("ncnn").compile(traced(lambda x: ops.relu(ops.conv(x, W, B)) * 2, X), 2)
    inputs = [noise(*X.shape, seed=i) for i in range(8)]
    wants = [program([x])[0] for x in inputs]
    wrong: list[int] = []

    def work(i: int) -> None:
        wrong.extend(i for _ in range(50) if not np.array_equal(program([inputs[i]])[0], wants[i]))

    in_threads(work, range(len(inputs)))
    assert wrong == []


def test_weights_are_copied_once_and_only_by_ncnn() -> None:
    large = noise(64, 8, 3, 3)
    model = to_ncnn(traced(lambda x: ops.relu(ops.conv(x, large)), X))
    assert any(np.shares_memory(w, large) for w in model.weights)


def test_written_network_has_shapes() -> None:
    lines = to_ncnn(traced(lambda x: ops.conv(x, W, B), X)).text.splitlines()
    assert lines[:3] == ["7767517", "2 2", "Input l0 0 1 b0 0=12 1=9 2=8 -23330=4,3,12,9,8"]
    assert lines[3].startswith("Convolution l1 1 1 b0 b1 0=16 1=3 11=3")


def stack(size: int, widths: list[int]) -> str:
    """Return a network of 3x3 convolutions with ReLUs and two poolings."""
    shape, below = f"shape {{ dim: 1 dim: 3 dim: {size} dim: {size} }}", "data"
    text = f'layer {{ name: "data" type: "Input" top: "data" input_param {{ {shape} }} }}\n'
    for i, width in enumerate(widths):
        text += (
            f'layer {{ name: "c{i}" type: "Convolution" bottom: "{below}" top: "c{i}" convolution_param {{ '
            f'num_output: {width} kernel_size: 3 pad: 1 weight_filler {{ type: "msra" }} }} }}\n'
            f'layer {{ name: "r{i}" type: "ReLU" bottom: "c{i}" top: "c{i}" }}\n'
        )
        below = f"c{i}"
        if i in (1, 3):
            text += (
                f'layer {{ name: "p{i}" type: "Pooling" bottom: "{below}" top: "p{i}" '
                f"pooling_param {{ kernel_size: 2 stride: 2 }} }}\n"
            )
            below = f"p{i}"
    return text


def read(folder: Path, text: str) -> anylayer.Net:
    (folder / "n.prototxt").write_text(text)
    return anylayer.read(folder / "n.prototxt").fill(seed=3)


def test_winograd_is_accurate_in_a_deep_network(tmp_path: Path) -> None:
    net = read(tmp_path, stack(48, [32, 64, 64, 64, 64, 64, 64, 64, 64, 64, 64, 64, 64]))
    x = noise(1, 3, 48, 48)
    want, got = net.compile(engine="numpy")(x), net.compile(engine="ncnn")(x)
    assert_same(got["c12"], want["c12"], tolerance=DEEP)


MODELS = {"mtcnn_det1": "fullimage", "shufflenet_v1_g3": ".", "squeezenet_v1.1": ".", "ultraface_RFB-320": "."}


@needs_data("models")
@pytest.mark.parametrize("name", MODELS)
def test_whole_networks_match_caffe(name: str) -> None:
    folder = REFERENCE / "models" / name
    kinds = {
        kind: {p.stem.removeprefix(f"{kind}_"): np.load(p) for p in (folder / MODELS[name]).glob(f"{kind}_*.npy")}
        for kind in ("input", "output")
    }
    inputs = {n: x[:1] for n, x in kinds["input"].items()}
    net = anylayer.read(folder / "deploy.prototxt", folder / "weights.caffemodel")
    outputs = net.compile(engine="ncnn", shapes={n: x.shape for n, x in inputs.items()})(inputs)
    for blob, want in kinds["output"].items():
        assert_same(outputs[blob], want[:1], blob, DEEP)


@needs_data("prototxt")
@pytest.mark.parametrize(
    "name",
    [
        "BVLC+caffe__models__bvlc_googlenet__deploy",
        "farmingyard+ShuffleNet__shufflenet_v2_1x_deploy",
        "shicai+MobileNet-Caffe__mobilenet_deploy",
        "TheLegendAli+DeepLab-Context__examples__cifar10__cifar10_full",
    ],
)
def test_whole_networks_match_numpy(name: str) -> None:
    net = anylayer.read(REFERENCE / "prototxt" / f"{name}.prototxt").fill()
    x = noise(1, *net.inputs["data"].shape[1:])
    last = [n.inputs[0] for n in net.network.nodes if n.type == "Softmax"]  # before what saturates
    models = [net.compile(engine=e, shapes={"data": x.shape}, outputs=last or None) for e in ("numpy", "ncnn")]
    want, got = (model(x) for model in models)
    for key, array in want.items():
        assert_same(got[key], array, key, DEEP)


@needs_data("models/hed")
def test_hed_with_the_crop_of_the_tutorial() -> None:
    crop = Path(__file__).parents[2] / "examples" / "hed" / "layers.py"
    net = anylayer.read(REFERENCE / "models" / "hed" / "deploy.prototxt", layers=[crop]).fill()
    x = noise(1, 3, 61, 83)
    want, got = (net.compile(engine=e, shapes={"data": x.shape})(x) for e in ("numpy", "ncnn"))
    assert len(want) == 6
    for key, array in want.items():
        assert array.std() > 1e-3
        assert_same(got[key], array, key, DEEP)


HEAVY = [64, 128, 128, 128, 128, 128]


def graphs(net: anylayer.Net) -> list[Graph]:
    return [s.graph for s in net.compile(engine="onnxruntime").plan.steps]


@pytest.mark.parametrize(
    ("size", "widths", "tried"), [(160, HEAVY, True), (32, HEAVY, False), (160, [8, 8, 8, 8], False)]
)
def test_auto_measures_networks_of_large_3x3_convolutions(
    tmp_path: Path, size: int, widths: list[int], tried: bool
) -> None:
    assert load_engine("ncnn").suits(graphs(read(tmp_path, stack(size, widths)))) is tried


def test_other_large_convolutions_do_not_make_auto_measure_ncnn(tmp_path: Path) -> None:
    text = stack(160, HEAVY)
    assert load_engine("ncnn").suits(graphs(read(tmp_path, text)))
    for other in ("kernel_size: 5", "kernel_size: 3 dilation: 2", "kernel_size: 3 stride: 2"):
        assert not load_engine("ncnn").suits(graphs(read(tmp_path, text.replace("kernel_size: 3", other))))


def test_output_of_another_shape_is_a_fault_of_the_engine(monkeypatch: pytest.MonkeyPatch) -> None:
    program = load_engine("ncnn").compile(traced(lambda x: x * x, X))
    assert program([X])[0].shape == X.shape
    monkeypatch.setattr(program, "_blob_shapes", [(8, 12, 9)])
    text = r"engine 'ncnn' returned output 0 with shape \(8, 9, 12\), expected \(8, 12, 9\)\. This is a fault"
    with pytest.raises(EngineError, match=text):
        program([X])


@pytest.fixture
def tried(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make "auto" measure ncnn for every network."""
    monkeypatch.setattr(load_engine("ncnn"), "suits", lambda graphs: True)


def test_auto_measures_ncnn(tmp_path: Path, tried: None) -> None:
    model = read(tmp_path, stack(16, [4, 4])).compile(engine="auto")
    assert set(model.timings) == {"onnxruntime", "openvino", "ncnn"}


def test_auto_skips_ncnn_when_exact(tmp_path: Path, tried: None) -> None:
    model = read(tmp_path, stack(16, [4, 4])).compile(engine="auto", exact=True)
    assert set(model.timings) == {"onnxruntime", "openvino"}


def test_auto_works_without_ncnn(tmp_path: Path, tried: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "anylayer.engines.ncnn", raising=False)
    monkeypatch.setitem(sys.modules, "ncnn", None)
    net = read(tmp_path, stack(16, [4, 4]))
    assert set(net.compile(engine="auto").timings) == {"onnxruntime", "openvino"}
    with pytest.raises(EngineError, match="engine 'ncnn' needs: pip install ncnn"):
        net.compile(engine="ncnn")


def test_auto_skips_ncnn_for_unsupported_operators(tmp_path: Path, tried: None) -> None:
    text = stack(16, [4]) + 'layer { name: "b" type: "ArgMax" bottom: "c0" top: "b" argmax_param { axis: 1 } }\n'
    assert set(read(tmp_path, text).compile(engine="auto").timings) == {"onnxruntime", "openvino"}


class Doctored:
    """The engine ncnn with all outputs multiplied by a factor, or (None) failing."""

    PRECISIONS = ("float32",)

    def __init__(self, factor: float | None) -> None:
        self.factor = factor

    def compile(self, graph: Graph, threads: int | None = None, precision: str = "float32") -> Any:
        program = importlib.import_module("anylayer.engines.ncnn").compile(graph, threads)

        def run(inputs: Any, out: Any = None) -> Any:
            if self.factor is None:
                raise EngineError("engine 'ncnn' failed with status -100 for output 0")
            return [y * np.float32(self.factor) for y in program(inputs, out)]

        return run


@pytest.mark.one_per("kept")
@pytest.mark.parametrize(("factor", "kept"), [(1.00001, True), (1.001, False), (np.nan, False), (None, False)])
def test_auto_skips_inaccurate_or_failing_ncnn(
    tmp_path: Path, tried: None, monkeypatch: pytest.MonkeyPatch, factor: float | None, kept: bool
) -> None:
    load = run_file.load_engine
    monkeypatch.setattr(run_file, "load_engine", lambda n: Doctored(factor) if n == "ncnn" else load(n))
    net = read(tmp_path, stack(16, [4, 4]))
    how = "largest .*" if factor == 1.001 else "other values are NaN"
    if kept or factor is None:
        model = net.compile(engine="auto")
    else:
        with pytest.warns(
            UserWarning,
            match=rf"engine 'ncnn' is not used: output 'p1' differs from NumPy \({how}\)",
        ):
            model = net.compile(engine="auto")
    assert ("ncnn" in model.timings) == kept


def test_auto_measures_again_for_shapes_that_ncnn_refuses(
    tmp_path: Path, tried: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    fastest = {"onnxruntime": 2.0, "openvino": 3.0, "ncnn": 1.0}
    monkeypatch.setattr(
        auto_file, "_measure", lambda runners, plan: {n: s for n, s in fastest.items() if n in runners}
    )
    net = read(tmp_path, stack(16, [4, 4]))
    model = net.compile(engine="auto")
    assert model.engine == "ncnn"
    x = noise(2, 3, 16, 16)
    assert_same(model(x)["p1"], net.compile(engine="numpy")(x)["p1"], tolerance=DEEP)
    assert model.engine == "onnxruntime"
    with pytest.raises(EngineError, match=r"operator 'Conv' \(c0\): batch 2, expected 1"):
        net.compile(engine="ncnn", shapes={"data": (2, 3, 16, 16)})


@pytest.mark.parametrize(("own", "seen"), [(None, "PASSIVE"), ("ACTIVE", "ACTIVE")])
def test_waiting_threads_sleep_unless_the_user_sets_a_policy(own: str | None, seen: str) -> None:
    """The variable is set while the package is loaded, and restored afterwards."""
    code = (
        "import os, sys\n"
        "class Watch:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        "        if name == 'ncnn':\n"
        "            print(os.environ.get('OMP_WAIT_POLICY'))\n"
        "sys.meta_path.insert(0, Watch())\n"
        "import anylayer.engines.ncnn\n"
        "print(os.environ.get('OMP_WAIT_POLICY'))\n"
    )
    env = {k: v for k, v in os.environ.items() if k != "OMP_WAIT_POLICY"}
    env.update({"OMP_WAIT_POLICY": own} if own else {})
    command = [sys.executable, "-c", code]
    shown = subprocess.run(command, env=env, capture_output=True, text=True, check=True).stdout
    assert shown.split() == [seen, str(own)]


def test_ncnn_computes_in_float32_only(tmp_path: Path) -> None:
    with pytest.raises(EngineError, match="engine 'ncnn' computes in float32, got 'bfloat16'"):
        read(tmp_path, stack(16, [4])).compile(engine="ncnn", precision="bfloat16")


def test_auto_measures_networks_of_samples() -> None:
    grid = noise(1, 9, 12, 2)
    assert load_engine("ncnn").suits([traced(lambda x: ops.grid_sample(x, grid).sum(axis=1), X)])
    assert not load_engine("ncnn").suits([traced(lambda x: np.exp(ops.grid_sample(x, grid)) + 1, X)])
