"""Recognize groups of operators that together compute a layer of the target."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace

from anylayer.graph import Graph, Op, Value
from anylayer.graph.facts import Producers, producer

Form = Callable[[Op, Producers], "Op | None"]
"""A function that returns one operator in place of the group that ends at an operator, or None."""


def recognized(graph: Graph, unread: Mapping[str, Sequence[int]], more: Sequence[Form] = ()) -> list[Op]:
    """Return the operators of a graph after recognized groups are replaced by one operator each. Operators whose
    outputs have no consumers are removed.

    unread: the inputs that the code of an operator does not read, by operator. more: forms of the target.
    """
    needed, kept = set(graph.outputs), []
    forms = (_prelu, _linear, _sigmoid, *more)
    found = [next(filter(None, (form(op, graph.producers) for form in forms)), op) for op in graph.ops]
    for op in reversed(found):
        if needed.intersection(op.outputs):
            ignored = unread.get(op.op, ())
            needed.update(v for i, v in enumerate(op.inputs) if v is not None and i not in ignored)
            kept.append(op)
    return kept[::-1]


def _operands(op: Op | None) -> Iterator[tuple[Value | None, Value | None]]:
    """Yield the two inputs of a binary operator in both orders; nothing for None."""
    if op is not None:
        yield op.inputs[0], op.inputs[1]
        yield op.inputs[1], op.inputs[0]


def _same_node(ops: Sequence[Op]) -> bool:
    return len({op.scope for op in ops}) == 1


def _prelu(op: Op, producers: Producers) -> Op | None:
    """Return PRelu for relu(x) + (x - relu(x)) * slopes with constant slopes."""
    for positive, rest in _operands(op) if op.op == "Add" else ():
        relu, product = producer(producers, positive, "Relu"), producer(producers, rest, "Mul")
        for negative, slopes in _operands(product):
            difference = producer(producers, negative, "Sub")
            if relu is None or product is None or difference is None or slopes is None or slopes.const is None:
                continue
            x = relu.inputs[0]
            if difference.inputs == [x, positive] and _same_node([op, relu, product, difference]):
                return replace(op, op="PRelu", inputs=[x, slopes])
    return None


def _linear(op: Op, producers: Producers) -> Op | None:
    """Return Gemm for x @ matrix + bias with a constant matrix and one constant number per column."""
    for sums, bias in _operands(op) if op.op == "Add" else ():
        product = producer(producers, sums, "MatMul")
        matrix = product.inputs[1] if product is not None else None
        if product is None or matrix is None or matrix.const is None or bias is None or bias.const is None:
            continue
        if matrix.const.ndim == 2 and bias.shape == matrix.shape[1:] and _same_node([op, product]):
            return replace(op, op="Gemm", inputs=[product.inputs[0], matrix, bias])
    return None


def _sigmoid(op: Op, producers: Producers) -> Op | None:
    """Return Sigmoid for 1 / (1 + exp(-x))."""
    if op.op != "Div" or not _is_one(op.inputs[0]):
        return None
    total = producer(producers, op.inputs[1], "Add")
    for power, one in _operands(total):
        exponential = producer(producers, power, "Exp")
        negative = producer(producers, exponential.inputs[0], "Neg") if exponential is not None else None
        if total is None or exponential is None or negative is None or not _is_one(one):
            continue
        if op.outputs[0].dtype.kind == "f" and _same_node([op, total, exponential, negative]):
            return replace(op, op="Sigmoid", inputs=negative.inputs)
    return None


def _is_one(value: Value | None) -> bool:
    """Return whether a value is the constant number 1."""
    const = None if value is None else value.const
    return const is not None and const.size == 1 and bool(const.reshape(-1)[0] == 1)
