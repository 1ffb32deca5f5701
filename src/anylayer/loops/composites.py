"""Operators that are replaced by simpler ones: each is defined as a NumPy function, whose trace replaces it."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from anylayer import ops
from anylayer.graph import Graph, Op, Value
from anylayer.graph.facts import Producers, reduced_axes
from anylayer.graph.sized import elements_of
from anylayer.loops.lowering import size_of
from anylayer.loops.nms import PaddedNms
from anylayer.network import Array
from anylayer.tracing import record, trace

Form = Callable[..., Any]
"""A function (operator, arrays) that returns the outputs of the operator."""
COMPOSITES: dict[str, tuple[Form, Callable[[Op], bool]]] = {}
"""Operator -> its form, and a function that returns whether the form replaces a given operator."""


def _always(op: Op) -> bool:
    return True


def composite(*names: str, when: Callable[[Op], bool] = _always) -> Callable[[Form], Form]:
    """Register the decorated NumPy function as the definition of these operators, where `when` returns True."""

    def enter(function: Form) -> Form:
        COMPOSITES.update(dict.fromkeys(names, (function, when)))
        return function

    return enter


def _form(op: Op) -> Form | None:
    """Return the NumPy function that replaces an operator, or None."""
    form, when = COMPOSITES.get(op.op, (None, _always))
    return form if not op.domain and when(op) else None


def expanded(graph: Graph) -> Graph:
    """Return a graph in which composite operators are replaced by simpler ones, which keep the source line of the
    original.
    """
    has_nms = any(op.op == "NonMaxSuppression" for op in graph.ops)
    if not has_nms and not any(_form(op) or _open_indices(op, graph.producers) for op in graph.ops):
        return graph
    done = Graph(graph.prefix, graph.scope)
    done.limit = graph.limit
    values: dict[Value, Value] = {v: done.input(v.name, v.shape, v.dtype) for v in graph.inputs}
    nms = PaddedNms(graph, done)

    def mapped(value: Value) -> Value:
        if value.const is not None and value not in values:
            values[value] = done.constant(value.const, trusted=True)
        return values[value]

    for op in graph.ops:
        inputs = [None if v is None else mapped(v) for v in op.inputs]
        if _open_indices(op, graph.producers):
            inputs[1] = _inside(done, op, inputs)
        function = _form(op)
        made = nms.replaced(op, inputs)
        if made is None:
            made = done.append_copy(op, inputs) if function is None else _traced(done, op, function, inputs)
        values.update(zip(op.outputs, made))
    done.outputs = [mapped(v) for v in graph.outputs]
    done.drop_dead()
    return done


def _traced(done: Graph, op: Op, function: Form, inputs: list[Value | None]) -> list[Value]:
    """Append the operators that the trace of `function` records, in place of `op`."""
    free = [v for v in dict.fromkeys(inputs) if v is not None and v.const is None]

    def call(arrays: list[Any]) -> list[Any]:
        known = dict(zip(free, arrays))
        found = function(op, *(None if v is None else known.get(v, v.const) for v in inputs))
        return list(found) if isinstance(found, (list, tuple)) else [found]

    body = trace(call, [v.type for v in free])
    body = expanded(body)
    for inner in body.ops:
        inner.place, inner.scope = op.place, op.scope
    return done.inline(body, free)


_GATHERS = ("Gather", "GatherElements")


def _open_indices(op: Op, producers: Producers) -> bool:
    """Return whether an operator is a gather whose indices can be checked only when the loops run."""
    index = op.inputs[1] if op.op in _GATHERS and not op.domain else None
    if index is None or op.inputs[0] is None or (index.const is not None and elements_of(index.const) is None):
        return False
    return not is_checked(index, producers)


def is_checked(index: Value, producers: Producers) -> bool:
    """Return whether the elements of an array are copies of indices that were checked."""
    made = producers.get(index)
    while made is not None and made.op == "Expand" and made.inputs[0] is not None:
        made = producers.get(made.inputs[0])
    return made is not None and made.op == "Inside"


def _inside(done: Graph, op: Op, inputs: list[Value | None]) -> Value | None:
    """Append an operator that checks the indices of a gather, so that each index is checked once: before an Expand
    that copies them."""
    x, index = inputs[:2]
    if x is None or index is None:
        return index
    attrs: dict[str, Any] = {"size": size_of(x.shape[op["axis"] % max(len(x.shape), 1)])}
    name, given = "Inside", list[Value | None]([index])
    made = done.producers.get(index)
    if made is not None and made.op == "Expand":
        name, given, attrs = "Expand", [_inside(done, op, [x, made.inputs[0]]), made.inputs[1]], {}
    return done.emit(name, given, [(index.shape, np.int64)], attrs, place=op.place, scope=op.scope)[0]


def _axis(op: Op, x: Array) -> int:
    return int(op["axis"]) % len(x.shape)


@composite("Softmax")
def _softmax(op: Op, x: Array) -> Any:
    axis = _axis(op, x)
    e = np.exp(x - x.max(axis=axis, keepdims=True))
    return e / e.sum(axis=axis, keepdims=True)


@composite("LogSoftmax")
def _log_softmax(op: Op, x: Array) -> Any:
    axis = _axis(op, x)
    shifted = x - x.max(axis=axis, keepdims=True)
    return shifted - np.log(np.exp(shifted).sum(axis=axis, keepdims=True))


@composite("Sigmoid")
def _sigmoid(op: Op, x: Array) -> Any:
    one = x.dtype.type(1)
    return one / (one + np.exp(-x))


@composite("Reciprocal")
def _reciprocal(op: Op, x: Array) -> Any:
    return x.dtype.type(1) / x


def _over(op: Op, function: Callable[[Any, Any, bool], Any], x: Array) -> Any:
    axes = reduced_axes(op)
    if axes is None:
        return record("Identity", [x], x.shape, x.dtype)
    return function(x, tuple(axes), bool(op["keepdims"]))


def _sum(x: Array, axes: Array, kept: bool) -> Any:
    return x.sum(axis=axes, keepdims=kept, dtype=x.dtype)


@composite("ReduceSumSquare", "ReduceL1", "ReduceL2", "ReduceLogSum", "ReduceLogSumExp", "ReduceMean")
def _reduced(op: Op, x: Array, axes: Array | None = None) -> Any:
    def mean(x: Array, axes: Array, kept: bool) -> Any:
        return _sum(x, axes, kept) / math.prod(x.shape[a] for a in axes)

    def stable(x: Array, axes: Array, kept: bool) -> Any:
        top = x.max(axis=axes, keepdims=True)
        found = np.log(_sum(np.exp(x - top), axes, True)) + top
        return found if kept else found.reshape([d for a, d in enumerate(x.shape) if a not in axes])

    forms: dict[str, Callable[[Any, Any, bool], Any]] = {
        "ReduceSumSquare": lambda x, axes, kept: _sum(x * x, axes, kept),
        "ReduceL1": lambda x, axes, kept: _sum(abs(x), axes, kept),
        "ReduceL2": lambda x, axes, kept: np.sqrt(_sum(x * x, axes, kept)),
        "ReduceLogSum": lambda x, axes, kept: np.log(_sum(x, axes, kept)),
        "ReduceLogSumExp": stable,
        "ReduceMean": mean,
    }
    return _over(op, forms[op.op], x)


@composite("SpaceToDepth")
def _space_to_depth(op: Op, x: Array) -> Array:
    b = int(op["blocksize"])
    n, c, h, w = x.shape
    y = x.reshape(n, c, h // b, b, w // b, b).transpose(0, 3, 5, 1, 2, 4)
    return y.reshape(n, c * b * b, h // b, w // b)


@composite("DepthToSpace")
def _depth_to_space(op: Op, x: Array) -> Array:
    b = int(op["blocksize"])
    n, c, h, w = x.shape
    if op["mode"] == "CRD":
        y = x.reshape(n, c // (b * b), b, b, h, w).transpose(0, 1, 4, 2, 5, 3)
    else:
        y = x.reshape(n, b, b, c // (b * b), h, w).transpose(0, 3, 4, 1, 5, 2)
    return y.reshape(n, c // (b * b), h * b, w * b)


@composite("LeakyRelu")
def _leaky_relu(op: Op, x: Array) -> Array:
    return np.where(x < 0, x * _given(op, x, "alpha"), x)


@composite("PRelu")
def _prelu(op: Op, x: Array, slopes: Array) -> Array:
    return np.where(x < 0, x * slopes, x)


@composite("Elu")
def _elu(op: Op, x: Array) -> Array:
    return np.where(x < 0, (np.exp(x) - x.dtype.type(1)) * _given(op, x, "alpha"), x)


@composite("HardSigmoid")
def _hard_sigmoid(op: Op, x: Array) -> Any:
    line = x * _given(op, x, "alpha") + _given(op, x, "beta")
    return np.minimum(np.maximum(line, x.dtype.type(0)), x.dtype.type(1))


@composite("Softplus")
def _softplus(op: Op, x: Array) -> Any:
    one, zero = x.dtype.type(1), x.dtype.type(0)
    return np.maximum(x, zero) + np.log(one + np.exp(-abs(x)))


@composite("Gelu")
def _gelu(op: Op, x: Array) -> Any:
    kind = x.dtype.type
    if op["approximate"] == "tanh":
        share = np.tanh((x + kind(0.044715) * x * x * x) * kind(math.sqrt(2 / math.pi)))
    else:
        share = ops.erf(x * kind(math.sqrt(0.5)))
    return (share + kind(1)) * x * kind(0.5)


@composite("BatchNormalization")
def _batch_normalization(op: Op, x: Array, scale: Array, bias: Array, mean: Array, variance: Array) -> Any:
    wide = (None, slice(None), *(None,) * (len(x.shape) - 2))
    factor = scale / np.sqrt(variance + _given(op, variance, "epsilon"))
    return x * factor[wide] + (bias - mean * factor)[wide]


def _normalized(op: Op, x: Array, axes: Any) -> Any:
    """Return (x - mean) / sqrt(variance + epsilon), with the mean and the variance over these axes."""
    count = math.prod(x.shape[a] for a in axes)
    centered = x - _sum(x, axes, True) / count
    variance = _sum(centered * centered, axes, True) / count
    return centered / np.sqrt(variance + _given(op, x, "epsilon"))


@composite("InstanceNormalization")
def _instance_normalization(op: Op, x: Array, scale: Array, bias: Array) -> Any:
    wide = (None, slice(None), *(None,) * (len(x.shape) - 2))
    return _normalized(op, x, tuple(range(2, len(x.shape)))) * scale[wide] + bias[wide]


@composite("LayerNormalization", when=lambda op: len(op.outputs) == 1)
def _layer_normalization(op: Op, x: Array, scale: Array, bias: Array | None = None) -> Any:
    found = _normalized(op, x, tuple(range(_axis(op, x), len(x.shape)))) * scale
    return found if bias is None else found + bias


@composite("Gemm")
def _gemm(op: Op, a: Array, b: Array, c: Array | None = None) -> Array:
    product = (a.T if op["transA"] else a) @ (b.T if op["transB"] else b)
    if op["alpha"] != 1.0:
        product = product * _given(op, a, "alpha")
    if c is None:
        return product
    return product + (c if op["beta"] == 1.0 else c * _given(op, a, "beta"))


def _given(op: Op, x: Array, name: str) -> Any:
    """Return a float attribute in the dtype of an array."""
    return x.dtype.type(np.float32(op[name]))
