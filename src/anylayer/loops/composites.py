"""Operators that are replaced by simpler ones: each is defined as a NumPy function, whose trace replaces it."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from anylayer import ops
from anylayer.graph import Graph, Op, Value
from anylayer.graph.facts import Producers, reduced_axes
from anylayer.graph.operators import ELEMENTWISE
from anylayer.graph.sized import elements_of
from anylayer.loops.lowering import size_of
from anylayer.network import Array
from anylayer.optimize.order import load_rules
from anylayer.optimize.rules import RULES, Rewriter, formula, rule
from anylayer.tracing import record

LOOPS = ("loops",)
"""The target of rules that replace what has no loops of its own."""
composite = partial(formula, targets=LOOPS)
"""Register the decorated NumPy function (operator, arrays) as the definition of operators."""
_MAX_ROUNDS = 8
"""The number of rules that can be applied one after the other."""


def expanded(graph: Graph) -> Graph:
    """Return a graph in which composite operators are replaced by simpler ones, which keep the source line of the
    original. A graph without composite operators is returned as it is.
    """
    load_rules("loops")
    graph = graph.with_loops(lambda o, body: replace(o, body=expanded(body)))
    for _ in range(_MAX_ROUNDS):
        load_rules("optimize", graph, "loops")
        rules = [r for r in RULES if "loops" in r.targets]
        simpler = Rewriter(graph).run(rules)
        simpler.drop_dead()
        if [o.op for o in simpler.ops] == [o.op for o in graph.ops]:
            break
        graph = simpler
    return graph


def is_checked(index: Value, producers: Producers) -> bool:
    """Return whether the elements of an array are copies of indices that were checked."""
    made = producers.get(index)
    while made is not None and made.op == "Expand" and made.inputs[0] is not None:
        made = producers.get(made.inputs[0])
    return made is not None and made.op == "Inside"


@rule("Gather", "GatherElements", kind="must", targets=LOOPS)
def _checked_indices(new: Rewriter, op: Op) -> Op | None:
    """Check the indices that are known only when the loops run."""
    x, index, *_ = op.inputs
    if x is None or index is None or (index.const is not None and elements_of(index.const) is None):
        return None
    if is_checked(index, new.graph.producers):
        return None
    return replace(op, inputs=[x, _inside(new, op, x, index)])


def _inside(new: Rewriter, op: Op, x: Value, index: Value) -> Value:
    """Append a check of the indices of a gather, each once: before an Expand that copies them."""
    copies = new.producer(index, "Expand")
    if copies is not None:
        return new.step(op, "Expand", [_inside(new, op, x, copies.first), copies.inputs[1]], index.shape, np.int64)
    size = size_of(x.shape[op["axis"] % max(len(x.shape), 1)])
    return new.step(op, "Inside", [index], index.shape, np.int64, size=size)


@rule(*ELEMENTWISE, kind="must", targets=LOOPS)
def _function_of_concat(new: Rewriter, op: Op) -> list[Value] | None:
    """Apply a function of elements to the parts of a Concat instead of its result, which loops then write once."""
    at = next((i for i, v in enumerate(op.inputs) if new.producer(v, "Concat") is not None), 0)
    concat, x = new.producer(op.inputs[at], "Concat"), op.inputs[at]
    numbers = [v for i, v in enumerate(op.inputs) if i != at and v is not None]
    if concat is None or x is None or x.shape != op.outputs[0].shape or not new.has_one_use(x):
        return None
    if any(v.const is None or elements_of(v.const) is not None or v.const.size != 1 for v in numbers):
        return None
    if all(new.producer(part) is None for part in concat.inputs):
        return None
    parts = [
        new.step(op, op.op, [*op.inputs[:at], part, *op.inputs[at + 1 :]], part.shape, **op.attrs)
        for part in concat.inputs
        if part is not None
    ]
    return new.emit(op, "Concat", parts, **concat.attrs)


@composite("Sigmoid")
def _sigmoid(op: Op, x: Array) -> Any:
    one = x.dtype.type(1)
    return one / (one + np.exp(-x))


def _sum(x: Array, axes: Array, kept: bool) -> Any:
    return x.sum(axis=axes, keepdims=kept, dtype=x.dtype)


@composite("ReduceSumSquare", "ReduceL1", "ReduceL2", "ReduceLogSum", "ReduceLogSumExp", "ReduceMean")
def _reduced(op: Op, x: Array, axes: Array | None = None) -> Any:
    found, kept = reduced_axes(op), bool(op["keepdims"])
    if found is None:
        return record("Identity", [x], x.shape, x.dtype)
    over: Any = tuple(found)
    if op.op == "ReduceLogSumExp":
        top = x.max(axis=over, keepdims=True)
        result = np.log(_sum(np.exp(x - top), over, True)) + top
        return result if kept else result.reshape([d for a, d in enumerate(x.shape) if a not in over])
    terms = x * x if op.op in ("ReduceSumSquare", "ReduceL2") else abs(x) if op.op == "ReduceL1" else x
    total = _sum(terms, over, kept)
    if op.op == "ReduceMean":
        return total / math.prod(x.shape[a] for a in over)
    return np.sqrt(total) if op.op == "ReduceL2" else np.log(total) if op.op == "ReduceLogSum" else total


composite("SpaceToDepth")(lambda op, x: ops.space_to_depth.meaning(x, int(op["blocksize"])))
composite("DepthToSpace")(lambda op, x: ops.depth_to_space.meaning(x, int(op["blocksize"]), mode=op["mode"]))
composite("LeakyRelu")(lambda op, x: ops.leaky_relu.meaning(x, op["alpha"]))
composite("HardSigmoid")(lambda op, x: ops.hard_sigmoid.meaning(x, op["alpha"], op["beta"]))
composite("Reciprocal")(lambda op, x: x.dtype.type(1) / x)


@composite("Elu")
def _elu(op: Op, x: Array) -> Array:
    return np.where(x < 0, (np.exp(x) - x.dtype.type(1)) * _given(op, x, "alpha"), x)


@composite("BatchNormalization")
def _batch_normalization(op: Op, x: Array, scale: Array, bias: Array, mean: Array, variance: Array) -> Any:
    factor = scale / np.sqrt(variance + _given(op, variance, "epsilon"))
    return _scaled(x, factor, bias - mean * factor)


def _scaled(x: Array, scale: Array, shift: Array) -> Any:
    """Return x * scale + shift, for a scale and a shift per channel."""
    wide = (None, slice(None), *(None,) * (len(x.shape) - 2))
    return x * scale[wide] + shift[wide]


def _normalized(op: Op, x: Array, axes: Any) -> Any:
    """Return (x - mean) / sqrt(variance + epsilon), with the mean and the variance over these axes."""
    count = math.prod(x.shape[a] for a in axes)
    centered = x - _sum(x, axes, True) / count
    variance = _sum(centered * centered, axes, True) / count
    return centered / np.sqrt(variance + _given(op, x, "epsilon"))


@composite("InstanceNormalization")
def _instance_normalization(op: Op, x: Array, scale: Array, bias: Array) -> Any:
    return _scaled(_normalized(op, x, tuple(range(2, len(x.shape)))), scale, bias)


@composite("LayerNormalization", when=lambda op: len(op.outputs) == 1)
def _layer_normalization(op: Op, x: Array, scale: Array, bias: Array | None = None) -> Any:
    found = _normalized(op, x, tuple(range(int(op["axis"]) % len(x.shape), len(x.shape)))) * scale
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
