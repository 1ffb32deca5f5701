"""Rewrites of rectifiers, logistic functions and GELU, and expressions that must stay."""

from __future__ import annotations

import numpy as np
import pytest

from anylayer import ops
from anylayer.optimize.simplify import simplify
from tests.compile.open_sizes import check_sizes

from .rewriting import ENGINES, Function, check, f, kinds, noise, rewritten, traced

X = noise(2, 5, 6, 7) * f(3)
SLOPES = np.linspace(-0.5, 0.5, 5, dtype=np.float32)[:, None, None]

EXACT: list[tuple[Function, list[str]]] = [
    (lambda x: np.maximum(x, 0), ["Relu"]),
    (lambda x: np.maximum(f(0), x), ["Relu"]),
    (lambda x: np.where(x > 0, x, 0), ["Relu"]),
    (lambda x: np.where(x < 0, f(0), x), ["Relu"]),
    (lambda x: x * (x > 0), ["Relu"]),
    (lambda x: np.where(x > 0, x, f(0.1) * x), ["LeakyRelu"]),
    (lambda x: np.where(x >= 0, x, x * f(-2)), ["LeakyRelu"]),
    (lambda x: np.where(x < 0, x * f(3), x), ["LeakyRelu"]),
    (lambda x: np.maximum(x, f(0.1) * x), ["LeakyRelu"]),
    (lambda x: np.maximum(f(-0.3) * x, x), ["LeakyRelu"]),
    (lambda x: np.maximum(x, 0) + f(0.1) * np.minimum(x, 0), ["LeakyRelu"]),
    (lambda x: np.minimum(x, 0) * f(0.1) + np.where(x > 0, x, 0), ["LeakyRelu"]),
    (lambda x: np.maximum(x, 0) - f(0.2) * np.maximum(-x, 0), ["LeakyRelu"]),
    (lambda x: np.minimum(np.maximum(x, 0), 6), ["Clip"]),
    (lambda x: np.minimum(f(1), np.maximum(f(-1), x)), ["Clip"]),
    (lambda x: np.maximum(np.minimum(x, 2), f(-0.5)), ["Clip"]),
]


@pytest.mark.parametrize(("function", "wanted"), EXACT)
def test_rectifiers_become_operators_exactly_on_every_engine(function: Function, wanted: list[str]) -> None:
    for engine in (None, *ENGINES):
        assert rewritten(function, X, engine=engine, exact=True) == wanted
    check(function, X, exact=True)


def spelled_prelu(x):
    positive = np.maximum(x, 0)
    return SLOPES * (x - positive) + positive


@pytest.mark.parametrize(
    "function",
    [lambda x: ops.prelu(x, SLOPES), lambda x: np.where(x > 0, x, x * SLOPES), spelled_prelu],
)
def test_slopes_become_prelu_except_on_onnx_runtime(function: Function) -> None:
    sizes: list[dict[str, int]] = [{"H": 6, "W": 7}, {"H": 9, "W": 12}, {"H": 1, "W": 3}]
    graph = check_sizes(function, (2, 5, "H", "W"), first=sizes[0], second=sizes[1], others=sizes)
    assert "PRelu" in kinds(simplify(graph, "openvino")) and "PRelu" not in kinds(simplify(graph, "onnxruntime"))
    for engine in (None, "openvino", "pytorch", "caffe"):
        assert rewritten(function, X, engine=engine, exact=True) == ["PRelu"]
    for engine in ("onnxruntime", "ncnn"):
        assert rewritten(function, X, engine=engine, exact=True) == ["Add", "Mul", "Relu", "Sub"]
    check(function, X, exact=True)


@pytest.mark.parametrize("shape", [(), (4,), (1, 4), (4, 1), (4, 4), (4, 1, 1), (4, 4, 4), (1, 4, 1, 1)])
@pytest.mark.parametrize("rank", [3, 4])
def test_slopes_belong_to_the_last_axes(shape: tuple[int, ...], rank: int) -> None:
    """All sizes are 4, so the shape of the slopes does not tell the axis."""
    if len(shape) <= rank:
        slopes = noise(*shape, seed=1)
        check(lambda x: ops.prelu(x, slopes), noise(*(4,) * rank))


OTHERS: list[Function] = [
    lambda x: np.maximum(x, f(0.5)),
    lambda x: np.maximum(x, f(2) * x),
    lambda x: np.where(x > 1, x, f(0.1) * x),
    lambda x: np.where(x > 0, f(0.1) * x, f(0.2) * x),
    lambda x: np.where(x > 0, x, f(0.1) * (x + 1)),
    lambda x: x * (x < 0),
    lambda x: np.maximum(x, 0) + f(0.1) * np.minimum(x, 1),
    lambda x: np.maximum(x, 0) - f(0.2) * np.maximum(-x - 1, 0),
    lambda x: np.minimum(np.maximum(x, 2), f(-2)),
    lambda x: np.where(x[:, :1] > 0, x[:, :1], x),
]


@pytest.mark.parametrize("function", OTHERS)
def test_other_expressions_do_not_become_rectifiers(function: Function) -> None:
    for engine in ENGINES:
        assert not {"LeakyRelu", "Clip"} & set(rewritten(function, X, engine=engine))
    check(function, X)


LOGISTIC: list[tuple[Function, list[str]]] = [
    (lambda x: 1 / (1 + np.exp(-x)), ["Sigmoid"]),
    (lambda x: np.reciprocal(np.exp(-x) + 1), ["Sigmoid"]),
    (lambda x: x / (1 + np.exp(-x)), ["Mul", "Sigmoid"]),
    (lambda x: x * (1 / (1 + np.exp(-x))), ["Mul", "Sigmoid"]),
    (lambda x: np.exp(x) / (1 + np.exp(x)), ["Sigmoid"]),
    (lambda x: f(0.5) * (np.tanh(f(0.5) * x) + 1), ["Sigmoid"]),
    (lambda x: f(0.5) * (1 + np.tanh(x / 2)), ["Sigmoid"]),
    (lambda x: (np.exp(x) - np.exp(-x)) / (np.exp(x) + np.exp(-x)), ["Tanh"]),
    (lambda x: np.clip(x + 3, 0, 6) / 6, ["HardSigmoid"]),
    (lambda x: np.clip(x + f(2.5), 0, 5) * f(0.2), ["HardSigmoid"]),
    (lambda x: x * np.clip(x + 3, 0, 6) / 6, ["HardSigmoid", "Mul"]),
    (lambda x: x * (np.minimum(np.maximum(x + 3, 0), 6) / 6), ["HardSigmoid", "Mul"]),
    (lambda x: f(0.5) * x * (1 + np.tanh(f(np.sqrt(2 / np.pi)) * (x + f(0.044715) * x**3))), ["Gelu"]),
    (lambda x: x * (1 + np.tanh(f(0.7978845608) * x * (1 + f(0.044715) * x * x))) / 2, ["Gelu"]),
    (lambda x: x * f(0.5) * (1 + ops.erf(x / f(np.sqrt(2)))), ["Gelu"]),
    (lambda x: x * (f(0.5) * (ops.erf(f(np.sqrt(0.5)) * x) + 1)), ["Gelu"]),
]


@pytest.mark.parametrize(("function", "wanted"), LOGISTIC)
def test_exponentials_become_operators_on_onnx_runtime_unless_exact(function: Function, wanted: list[str]) -> None:
    assert rewritten(function, X, engine="onnxruntime") == wanted
    assert len(rewritten(function, X, engine="onnxruntime", exact=True)) > len(wanted)
    assert rewritten(function, X, engine="openvino") != wanted
    check(function, X)


WHOLE: list[tuple[str, Function, set[str | None]]] = [
    ("PRelu", lambda x: ops.prelu(x, SLOPES), {None, "openvino", "onnx", "caffe", "pytorch"}),
    ("PRelu", lambda x: ops.prelu(x, np.abs(x[:1])), {None, "onnx", "pytorch"}),
    ("Gelu", ops.gelu, {None, "onnxruntime", "openvino", "pytorch"}),
    ("Gelu", lambda x: ops.gelu(x, "tanh"), {None, "onnxruntime", "openvino", "pytorch"}),
    ("Softplus", ops.softplus, {None, "openvino", "onnx", "caffe", "ncnn", "pytorch"}),
    ("Softmax", lambda x: ops.softmax(x, axis=1), {None, "openvino", "onnx", "caffe", "ncnn", "pytorch"}),
    ("Softmax", ops.softmax, {None, "openvino", "onnxruntime", "onnx", "caffe", "ncnn", "pytorch"}),
    ("LogSoftmax", lambda x: ops.log_softmax(x, axis=1), {None, "openvino", "onnx", "caffe", "ncnn", "pytorch"}),
    ("LRN", lambda x: ops.lrn(x, 3), {None, "openvino", "onnx", "caffe", "ncnn", "pytorch"}),
    ("LRN", lambda x: ops.lrn(x, 4), {None, "onnx", "pytorch"}),
]


@pytest.mark.parametrize(("op", "function", "whole"), WHOLE)
def test_targets_decide_which_operators_stay_whole(op: str, function: Function, whole: set[str | None]) -> None:
    assert kinds(traced(function, X)).count(op) == 1
    for target in (None, "openvino", "onnxruntime", "onnx", "caffe", "ncnn", "pytorch"):
        assert (op in rewritten(function, X, engine=target)) == (target in whole), target
    check(function, X)
    if op != "Gelu":  # ONNX Runtime has no Erf in float64
        check(function, X.astype(np.float64))


UNLIKE: list[Function] = [
    lambda x: 1 / (2 + np.exp(-x)),
    lambda x: 1 / (1 + np.exp(x)),
    lambda x: np.exp(x) / (1 + np.exp(f(2) * x)),
    lambda x: f(0.5) * (np.tanh(x) + 1),
    lambda x: np.clip(x + 3, 0, 6) / 5,
    lambda x: np.clip(x + 3, 1, 6) / 6,
    lambda x: x * f(0.5) * (1 + ops.erf(x / f(1.5))),
    lambda x: x * f(0.5) * (1 + np.tanh(f(0.9) * (x + f(0.044715) * x**3))),
    lambda x: x * f(0.25) * (1 + ops.erf(x / f(np.sqrt(2)))),
    lambda x: (x + 1) * f(0.5) * (1 + ops.erf(x / f(np.sqrt(2)))),
]


@pytest.mark.parametrize("function", UNLIKE)
def test_similar_exponentials_stay(function: Function) -> None:
    found = set(rewritten(function, X, engine="onnxruntime"))
    assert not {"HardSigmoid", "Gelu"} & found
    assert "Sigmoid" not in found
    check(function, X)


MISH: list[Function] = [
    lambda x: x * np.tanh(np.log1p(np.exp(x))),
    lambda x: x * np.tanh(np.log(1 + np.exp(x))),
    lambda x: x * np.tanh(ops.softplus(x)),
]


@pytest.mark.parametrize("function", MISH)
def test_mish_needs_one_exponential(function: Function) -> None:
    for engine in ENGINES:
        wanted = ["Add", "Add", "Div", "Exp", "Min", "Mul", "Mul"]
        assert rewritten(function, X, engine=engine) == wanted
    check(function, X)
    check(function, np.linspace(-80, 80, 60, dtype=np.float32).reshape(3, 20))


def test_tanh_of_other_logarithm_stays() -> None:
    def function(x):
        return x * np.tanh(np.log(2 + np.exp(x)))

    assert "Tanh" in rewritten(function, X, engine="openvino")
    check(function, X)
