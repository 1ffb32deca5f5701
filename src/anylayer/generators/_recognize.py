"""Recognize groups of operators that together compute a layer of the target."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from anylayer.graph import Graph, Op, Value
from anylayer.graph.facts import Producers, producer


def recognized(graph: Graph, unread: Mapping[str, Sequence[int]]) -> list[Op]:
    """Return the operators of a graph after recognized groups are replaced by one operator each. Operators whose
    outputs have no consumers are removed.

    unread: the inputs that the code of an operator does not read, by operator.
    """
    needed, kept = set(graph.outputs), []
    for op in reversed([_prelu(op, graph.producers) or _linear(op, graph.producers) or op for op in graph.ops]):
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
