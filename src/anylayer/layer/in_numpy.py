"""Compute operators of a graph in NumPy, by the layers that define ONNX's operators."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from anylayer.graph import Op
from anylayer.layer.bound import bind
from anylayer.layer.registry import Registry
from anylayer.network import ABSENT, Array, Node, TensorType


def compute(op: Op, inputs: Sequence[Array | None], attributes: Mapping[str, object] | None = None) -> list[Array]:
    """Return the outputs of an operator of ONNX's domain. attributes: those to use in place of its own."""
    names = ["" if x is None else f"x{i}" for i, x in enumerate(inputs)]
    params = {"attribute": dict(op.attrs if attributes is None else attributes)}
    node = Node(op.op, op.op, names, [f"y{i}" for i in range(len(op.outputs))], params)
    types = [ABSENT if x is None else TensorType(x.shape, x.dtype) for x in inputs]
    return bind(node, Registry.of("onnx").find(op.op), types)(list(inputs))
