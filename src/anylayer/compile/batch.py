"""Make one graph with a symbolic batch size from two traces with different batch sizes.

Numbers that differ between the traces must be the same multiple of the batch size in both, and become that
multiple: sizes, the shapes that operators are given. A constant that differs must repeat the same values for every
sample.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import zip_longest
from typing import Any

import numpy as np

from anylayer.compile.limits import MAX_VALUES
from anylayer.errors import TraceError
from anylayer.graph.ir import Graph, Op, Value
from anylayer.graph.sizes import Dim
from anylayer.network import Array

_INT64 = np.dtype(np.int64)
_BROADCASTING = frozenset(
    (
        *("Add", "Sub", "Mul", "Div", "Pow", "Mod", "Min", "Max", "And", "Or", "Xor", "Where", "PRelu"),
        *("Equal", "Less", "LessOrEqual", "Greater", "GreaterOrEqual"),
    )
)


def with_symbolic_batch(graph_a: Graph, graph_b: Graph, name: str = "N") -> Graph:
    """Return one graph for every batch size, from the traces of a network with two batch sizes.

    `name` is the name of the batch size in shapes. The batch sizes of the traces should be 2 and 3, because layers
    may treat a size of 1 differently. Raises TraceError, which names the node, where the traces differ in more
    than the batch size.
    """
    return _Unifier(graph_a, graph_b, name).run()


class _Unifier:
    """Walk two traces together, and build the graph with a symbolic batch size.

    `a` and `b` are the traces, `batches` their batch sizes. `sizes` maps a factor to the size factor * batch.
    `unified` maps a value of `a` to its value in the new graph, `partner` to its value in `b`. `source` is the
    first input whose first size is the batch. `where` names the part of the network in errors.
    """

    def __init__(self, a: Graph, b: Graph, name: str) -> None:
        self.a, self.b = a, b
        self.graph = Graph(a.prefix, a.scope)
        self.graph.limit = a.limit
        self.graph.notes = list(a.notes)
        self.batches = _batch_sizes(a, b)
        self.name = name
        self.sizes: dict[int, Dim] = {1: Dim(name, MAX_VALUES)}
        self.unified: dict[Value, Value] = {}
        self.partner: dict[Value, Value] = {}
        self.source: Value | None = None
        self.where = ""

    def run(self) -> Graph:
        for a, b in zip(self.a.inputs, self.b.inputs):
            self.where = f"input '{a.name}'"
            value = self.graph.input(a.name, self.shape(a.shape, b.shape), a.dtype)
            self.pair(a, b, value)
            if self.source is None and value.shape and value.shape[0] is self.sizes[1]:
                self.source = value
        for x, y in zip_longest(self.a.ops, self.b.ops):
            self.operator(x, y)
        self.where = "an output"
        self.graph.outputs = [self.value(a, b) for a, b in zip(self.a.outputs, self.b.outputs)]
        self.graph.drop_dead()
        return self.graph

    def refuse(self, why: str) -> TraceError:
        a, b = self.batches
        return TraceError(
            f"{self.where} computes something else with batch size {a} than with {b}: {why}. So the batch cannot "
            "be symbolic; give a number"
        )

    def pair(self, a: Value, b: Value, unified: Value) -> None:
        self.unified[a] = unified
        self.partner[a] = b

    def size(self, a: Any, b: Any) -> Any:
        """Return the size that is `a` in the first trace and `b` in the second."""
        if isinstance(a, str) and a == b:  # the name of a symbolic size
            return a
        if a is b or (not isinstance(a, Dim) and not isinstance(b, Dim) and a == b):
            return int(a) if not isinstance(a, Dim) else a
        if isinstance(a, Dim) or isinstance(b, Dim):
            raise self.refuse(f"a dynamic size, {a!r} and {b!r}")
        factor = self.factor(int(a), int(b))
        name, one = f"{factor}*{self.name}", self.sizes[1]
        return self.sizes.setdefault(factor, Dim(name, MAX_VALUES, base=one, factor=factor))

    def factor(self, a: int, b: int) -> int:
        """Return the factor by which both sizes are multiples of the batch size."""
        n, m = self.batches
        if a % n or b % m or a // n != b // m:
            raise self.refuse(f"a size is {a}, then {b}")
        return a // n

    def shape(self, a: Sequence[Any], b: Sequence[Any]) -> tuple[Any, ...]:
        if len(a) != len(b):
            raise self.refuse(f"an array has shape {tuple(a)}, then {tuple(b)}")
        return tuple(self.size(x, y) for x, y in zip(a, b))

    def operator(self, a: Op | None, b: Op | None) -> None:
        self.where = f"node '{(a or b or Op('', [], [])).scope}'"
        if a is None or b is None or (a.op, a.domain, a.scope) != (b.op, b.domain, b.scope):
            names = " and ".join(o.op if o is not None else "nothing" for o in (a, b))
            raise self.refuse(f"operators {names}")
        if repr(sorted(a.attrs.items())) != repr(sorted(b.attrs.items())):
            raise self.refuse(f"{a.op} with {a.attrs}, then with {b.attrs}")
        if len(a.inputs) != len(b.inputs):
            raise self.refuse(f"{a.op} of {len(a.inputs)} arrays, then of {len(b.inputs)}")
        inputs = [self.argument(a, i, x, y) for i, (x, y) in enumerate(zip(a.inputs, b.inputs))]
        types = [(self.shape(x.shape, y.shape), x.dtype) for x, y in zip(a.outputs, b.outputs)]
        made = self.graph.append_copy(a, inputs, types=types, body=self.body(a, b))
        for x, y, unified in zip(a.outputs, b.outputs, made):
            self.pair(x, y, unified)

    def body(self, a: Op, b: Op) -> Graph | None:
        """Return the body of a call, also with a symbolic batch size."""
        if a.body is None or b.body is None:
            return None
        if [v.shape for v in a.body.inputs] == [v.shape for v in b.body.inputs]:
            return a.body
        unifier = _Unifier(a.body, b.body, self.name)
        try:
            return unifier.run()
        except TraceError as error:
            raise self.refuse(error.message) from error

    def argument(self, o: Op, at: int, a: Value | None, b: Value | None) -> Value | None:
        if a is None or b is None:
            if a is not b:
                raise self.refuse(f"{o.op} with and without its input {at}")
            return None
        same_const = a.const is not None and b.const is not None
        if not same_const or _equal(a, b):
            return self.value(a, b)
        if o.op == "Reshape" and at == 1:
            return self.target(o, a, b)
        if a.dtype.kind == "i" and a.shape == b.shape and len(a.shape) == 1:
            return self.computed(a, b)
        return self.repeated(o, a, b)

    def value(self, a: Value, b: Value) -> Value:
        if a.const is not None and b.const is not None:
            if not _equal(a, b):
                return self.repeated(None, a, b)
            return self.graph.constant(a.const, trusted=True)
        if self.partner.get(a) is not b:
            raise self.refuse("it reads other arrays")
        return self.unified[a]

    def target(self, o: Op, a: Value, b: Value) -> Value:
        """Return the shape input of a Reshape. The symbolic size becomes 0 where the input has it at the same
        axis, and -1 (inferred) elsewhere; where there are several, all sizes are computed."""
        old = self.unified[o.inputs[0]].shape if o.inputs[0] is not None else ()
        first, second = _const(a), _const(b)
        sizes = [self.size(x, y) for x, y in zip(first, second)] if len(first) == len(second) else []
        symbolic = [i for i, d in enumerate(sizes) if isinstance(d, Dim)]
        kept = len(symbolic) == 1 and symbolic[0] < len(old) and old[symbolic[0]] is sizes[symbolic[0]]
        if not symbolic or (-1 in sizes and not kept):
            raise self.refuse(f"Reshape to {tuple(first.tolist())}, then to {tuple(second.tolist())}")
        if len(symbolic) > 1:
            return self.computed(a, b)
        at = symbolic[0]
        return self.graph.constant(np.array([d if i != at else 0 if kept else -1 for i, d in enumerate(sizes)]))

    def emit(self, op: str, inputs: Sequence[Value], shape: Sequence[int], **attrs: Any) -> Value:
        return self.graph.emit(op, inputs, [(shape, _INT64)], attrs, place="", scope="")[0]

    def computed(self, a: Value, b: Value) -> Value:
        """Return integers, some of them multiples of the batch size, computed from the shape of an input."""
        if self.source is None:
            raise self.refuse("no input has the batch as its first axis")
        count = self.emit("Shape", [self.source], [1], start=0, end=1)
        parts: list[Value] = []
        for x, y in zip(_const(a), _const(b)):
            if x == y:
                parts.append(self.graph.constant(np.array([x], np.int64)))
                continue
            factor = self.graph.constant(np.array([self.factor(int(x), int(y))], np.int64))
            parts.append(count if factor.const is not None and factor.const[0] == 1 else self.times(count, factor))
        joined = parts[0] if len(parts) == 1 else self.emit("Concat", parts, [len(parts)], axis=0)
        if a.dtype == _INT64:
            return joined
        raise self.refuse(f"sizes of type {a.dtype.name}")

    def times(self, count: Value, factor: Value) -> Value:
        return self.emit("Mul", [count, factor], [1])

    def repeated(self, o: Op | None, a: Value, b: Value) -> Value:
        """Return a constant that holds the same values for every sample. It stays one sample where the operator
        broadcasts it, and is repeated otherwise."""
        shape = self.shape(a.shape, b.shape)
        symbolic = [i for i, d in enumerate(shape) if isinstance(d, Dim)]
        first, second = _const(a), _const(b)
        if len(symbolic) != 1 or shape[symbolic[0]] is not self.sizes[1]:
            raise self.refuse(f"a constant {a.type} has other values than {b.type}")
        one = first.take([0], symbolic[0])
        if (first != one).any() or (second != one).any():
            raise self.refuse(f"a constant {a.type} is not the same for every sample")
        value = self.graph.constant(one)
        if o is not None and o.op in _BROADCASTING and self.has_batch(o, symbolic[0] - len(shape)):
            return value
        sizes = self.computed(*(self.graph.constant(np.array(v.shape, np.int64)) for v in (a, b)))
        return self.graph.emit("Expand", [value, sizes], [(shape, a.dtype)], {}, place="", scope="")[0]

    def has_batch(self, o: Op, axis: int) -> bool:
        """Return whether an operand that is not constant has the batch at this axis (negative, from the last)."""
        shapes = [self.unified[v].shape for v in o.inputs if v is not None and v.const is None]
        return any(len(s) >= -axis and s[axis] is self.sizes[1] for s in shapes)


def _const(value: Value) -> Array:
    return np.asarray(value.const)


def _equal(a: Value, b: Value) -> bool:
    if a.const is b.const:
        return True
    x, y = _const(a), _const(b)
    return x.dtype == y.dtype and x.shape == y.shape and x.tobytes() == y.tobytes()


def _batch_sizes(a: Graph, b: Graph) -> tuple[int, int]:
    """Return the batch sizes of two traces: the first sizes in which their inputs differ."""
    for x, y in zip(a.inputs, b.inputs):
        for n, m in zip(x.shape, y.shape):
            if n != m:
                return int(n), int(m)
    raise TraceError("both traces have the same input shapes, so the batch size cannot be found")
