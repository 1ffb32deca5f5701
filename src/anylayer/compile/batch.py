"""One graph for any number of samples, made of two traces at different numbers.

What differs between the two must be a multiple of the number of samples, and becomes it: sizes, the shapes that
operators are given, constants that repeat along the samples.
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
_BROADCASTS = frozenset(
    (
        *("Add", "Sub", "Mul", "Div", "Pow", "Mod", "Min", "Max", "And", "Or", "Xor", "Where", "PRelu"),
        *("Equal", "Less", "LessOrEqual", "Greater", "GreaterOrEqual"),
    )
)


def with_open_batch(graph_a: Graph, graph_b: Graph, name: str = "N") -> Graph:
    """The graph of which `graph_a` and `graph_b` are the traces for two numbers of samples, with a dimension
    called `name` in place of that number.

    2 and 3 samples serve best: sizes of 1 are treated apart. Raises TraceError, which names the network's node,
    where the two differ in more than the number.
    """
    return _Opener(graph_a, graph_b, name).run()


class _Opener:
    def __init__(self, a: Graph, b: Graph, name: str) -> None:
        self.a, self.b = a, b
        self.graph = Graph(a.prefix, a.scope)
        self.graph.limit = a.limit
        self.graph.notes = list(a.notes)
        self.counts = _counts(a, b)
        self.name = name
        self.dims: dict[int, Dim] = {1: Dim(name, MAX_VALUES)}
        self.known: dict[Value, Value] = {}
        self.partner: dict[Value, Value] = {}
        self.source: Value | None = None
        self.at = ""

    def run(self) -> Graph:
        for a, b in zip(self.a.inputs, self.b.inputs):
            self.at = f"input '{a.name}'"
            opened = self.graph.input(a.name, self.shape(a.shape, b.shape), a.dtype)
            self.pair(a, b, opened)
            if self.source is None and opened.shape and opened.shape[0] is self.dims[1]:
                self.source = opened
        for x, y in zip_longest(self.a.ops, self.b.ops):
            self.operator(x, y)
        self.at = "an output"
        self.graph.outputs = [self.value(a, b) for a, b in zip(self.a.outputs, self.b.outputs)]
        self.graph.drop_dead()
        return self.graph

    def refuse(self, why: str) -> TraceError:
        a, b = self.counts
        return TraceError(
            f"{self.at} computes otherwise for {a} samples than for {b}: {why}. Its batch cannot be left open; "
            "give a number"
        )

    # -------------------------------------------------------------------- the parts

    def pair(self, a: Value, b: Value, opened: Value) -> None:
        self.known[a] = opened
        self.partner[a] = b

    def size(self, a: Any, b: Any) -> Any:
        """A number of both graphs, or the multiple of the number of samples that it is."""
        if isinstance(a, str) and a == b:  # a name of an operator's own
            return a
        if a is b or (not isinstance(a, Dim) and not isinstance(b, Dim) and a == b):
            return int(a) if not isinstance(a, Dim) else a
        if isinstance(a, Dim) or isinstance(b, Dim):
            raise self.refuse(f"a size that depends on data, {a!r} and {b!r}")
        factor = self.factor(int(a), int(b))
        return self.dims.setdefault(factor, Dim(f"{factor}*{self.name}", MAX_VALUES))

    def factor(self, a: int, b: int) -> int:
        n, m = self.counts
        if a % n or b % m or a // n != b // m:
            raise self.refuse(f"a size is {a}, then {b}")
        return a // n

    def shape(self, a: Sequence[Any], b: Sequence[Any]) -> tuple[Any, ...]:
        if len(a) != len(b):
            raise self.refuse(f"an array has shape {tuple(a)}, then {tuple(b)}")
        return tuple(self.size(x, y) for x, y in zip(a, b))

    def operator(self, a: Op | None, b: Op | None) -> None:
        self.at = f"node '{(a or b or Op('', [], [])).scope}'"
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
        for x, y, opened in zip(a.outputs, b.outputs, made):
            self.pair(x, y, opened)

    def body(self, a: Op, b: Op) -> Graph | None:
        """What a call computes, for any number of samples too."""
        if a.body is None or b.body is None:
            return None
        if [v.shape for v in a.body.inputs] == [v.shape for v in b.body.inputs]:
            return a.body
        opener = _Opener(a.body, b.body, self.name)
        try:
            return opener.run()
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
        return self.known[a]

    # ---------------------------------------------------- constants that tell the number

    def target(self, o: Op, a: Value, b: Value) -> Value:
        """Reshape's shape: 0 keeps the samples at their place; one size elsewhere is what is left, -1."""
        old = self.known[o.inputs[0]].shape if o.inputs[0] is not None else ()
        first, second = _const(a), _const(b)
        sizes = [self.size(x, y) for x, y in zip(first, second)] if len(first) == len(second) else []
        opened = [i for i, d in enumerate(sizes) if isinstance(d, Dim)]
        if not opened or -1 in sizes:
            raise self.refuse(f"Reshape to {tuple(first)}, then to {tuple(second)}")
        if len(opened) > 1:
            return self.computed(a, b)
        at = opened[0]
        kept = at < len(old) and old[at] is sizes[at]
        return self.graph.constant(np.array([d if i != at else 0 if kept else -1 for i, d in enumerate(sizes)]))

    def emit(self, op: str, inputs: Sequence[Value], shape: Sequence[int], **attrs: Any) -> Value:
        return self.graph.emit(op, inputs, [(shape, _INT64)], attrs, place="", scope="")[0]

    def computed(self, a: Value, b: Value) -> Value:
        """Whole numbers of which some are multiples of the number of samples, computed of an input's shape."""
        if self.source is None:
            raise self.refuse("no input has the samples as its first axis")
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
        """A constant that is the same for every sample: once, where it is broadcast, else repeated."""
        shape = self.shape(a.shape, b.shape)
        opened = [i for i, d in enumerate(shape) if isinstance(d, Dim)]
        first, second = _const(a), _const(b)
        if len(opened) != 1 or shape[opened[0]] is not self.dims[1]:
            raise self.refuse(f"a constant {a.type} has other values than {b.type}")
        one = first.take([0], opened[0])
        if (first != one).any() or (second != one).any():
            raise self.refuse(f"a constant {a.type} is not the same for every sample")
        value = self.graph.constant(one)
        if o is not None and o.op in _BROADCASTS and self.has_samples(o, opened[0] - len(shape)):
            return value
        sizes = self.computed(*(self.graph.constant(np.array(v.shape, np.int64)) for v in (a, b)))
        return self.graph.emit("Expand", [value, sizes], [(shape, a.dtype)], {}, place="", scope="")[0]

    def has_samples(self, o: Op, axis: int) -> bool:
        """Whether an operand that is computed has the samples at this axis, counted from the last."""
        shapes = [self.known[v].shape for v in o.inputs if v is not None and v.const is None]
        return any(len(s) >= -axis and s[axis] is self.dims[1] for s in shapes)


def _const(value: Value) -> Array:
    return np.asarray(value.const)


def _equal(a: Value, b: Value) -> bool:
    if a.const is b.const:
        return True
    x, y = _const(a), _const(b)
    return x.dtype == y.dtype and x.shape == y.shape and x.tobytes() == y.tobytes()


def _counts(a: Graph, b: Graph) -> tuple[int, int]:
    """The numbers of samples: the first sizes in which the inputs differ."""
    for x, y in zip(a.inputs, b.inputs):
        for n, m in zip(x.shape, y.shape):
            if n != m:
                return int(n), int(m)
    raise TraceError("two traces of the same shapes do not tell the number of samples apart")
