"""The scalar expression of one element of a value: which rule a loop applies to a pair of elements, however it is
spelled with slices, reshapes, gathers and products over an axis.

An expression is a number, the index of its node in `Expressions.nodes`. Equal expressions have one number.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from anylayer.graph.facts import producer, reduced_axes, slice_cuts
from anylayer.graph.ir import Op, Value
from anylayer.graph.operators import COMMUTATIVE, ELEMENTWISE, VIEWS
from anylayer.network import Array

_MAX_NODES = 1000
_FOLDS = {"ReduceProd": "Mul", "ReduceSum": "Add", "ReduceMax": "Max", "ReduceMin": "Min"}


class Unknown(Exception):
    """The error of a value whose elements have no expression."""


class Expressions:
    """Expressions of elements. `size` is the number of elements, `producers` the operators before the loop."""

    def __init__(self, size: Any, producers: Mapping[Value, Op]) -> None:
        self.size, self.producers = size, producers
        self.nodes: list[tuple[Any, ...]] = []
        self._numbers: dict[tuple[Any, ...], int] = {}
        self._known: dict[tuple[Value, int, int], Array] = {}
        self.taken, self.other = self.node("position", "taken"), self.node("position", "other")

    def node(self, *node: Any) -> int:
        if len(self.nodes) > _MAX_NODES:
            raise Unknown
        if node not in self._numbers:
            self._numbers[node] = len(self.nodes)
            self.nodes.append(node)
        return self._numbers[node]

    def constant(self, x: Any) -> int:
        return self.node("constant", np.dtype(x.dtype).str, x.item())

    def apply(self, op: str, *arguments: int) -> int:
        """Return the expression of an operator. x + 0 is x: the sign of a zero is ignored."""
        if op == "Relu":
            return self.apply("Max", arguments[0], self.constant(np.float32(0)))
        if op in ("Greater", "GreaterOrEqual"):
            return self.apply(op.replace("Greater", "Less"), *arguments[::-1])
        if op == "Add":
            arguments = tuple(a for a in arguments if not self.is_zero(a)) or arguments[:1]
            if len(arguments) == 1:
                return arguments[0]
        return self.node(op, *(sorted(arguments) if op in COMMUTATIVE.names else arguments))

    def is_zero(self, e: int) -> bool:
        return self.nodes[e][0] == "constant" and bool(self.nodes[e][2] == 0)

    def arguments(self, e: int, op: str) -> tuple[int, int]:
        """Return the arguments of an expression. Raises Unknown if it is another operator."""
        name, *arguments = self.nodes[e]
        if name != op or len(arguments) != 2:
            raise Unknown
        return arguments[0], arguments[1]

    def for_taken(self, e: int) -> int:
        """Return the expression of the taken element for that of another one."""
        name, *arguments = self.nodes[e]
        if name == "position":
            return self.taken
        if name == "constant":
            return e
        if name == "element":
            value, axis, at, index = arguments
            return self.node(name, value, axis, self.for_taken(at), index)
        return self.apply(name, *map(self.for_taken, arguments))

    # ---------------------------------------------------------------------------- values before the loop

    def elements(self, value: Value, axis: int, at: int) -> Array:
        """Return the expressions of the elements of `value` at position `at` of an axis, which has size 1."""
        key = value, axis, at
        if key not in self._known:
            elements = self._from_inputs(value, axis, at)
            self._known[key] = self._element(value, axis, at) if elements is None else elements
        return self._known[key]

    def _element(self, value: Value, axis: int, at: int) -> Array:
        shape = shape_of_one(value.shape, axis)
        elements = [self.node("element", value, axis, at, index) for index in np.ndindex(*shape)]
        return np.array(elements, np.int64).reshape(shape)

    def _from_inputs(self, value: Value, axis: int, at: int) -> Array | None:
        """Return the elements of a value by those of the inputs of its operator, or None."""
        o = producer(self.producers, value)
        x = None if o is None else o.input(0)
        if o is None or x is None:
            return None
        rank, shape = len(value.shape), shape_of_one(value.shape, axis)
        if o.op == "Gather":
            index = o.input(1)
            along = o["axis"] % len(x.shape)
            if index is not None and len(index.shape) == 1 and axis == along:
                return self.elements(x, axis, self.elements(index, 0, at).item())
            return None
        if o in VIEWS:
            for i, d in enumerate(x.shape):
                before = [*x.shape[:i], *value.shape[:axis]]
                is_moved = d == value.shape[axis] and all(type(n) is int for n in before)
                if is_moved and math.prod(x.shape[:i]) == math.prod(value.shape[:axis]):
                    return self.elements(x, i, at).reshape(shape)
            return None
        if o.op == "Slice":
            cuts = slice_cuts(o)
            return (
                None if cuts is None or any(c.axis == axis for c in cuts) else _cut(self.elements(x, axis, at), o)
            )
        if o.op == "Transpose":
            order = o["perm"]
            return None if order is None else self.elements(x, order[axis], at).transpose(order)
        if o.op in _FOLDS:
            axes = reduced_axes(o) or []
            at_input = axis if o["keepdims"] else axis + sum(a <= axis for a in axes)
            return None if at_input in axes else self.reduce_pairs(o, self.elements(x, at_input, at), shape)
        if _is_plain(o) and all(v is not None and v.dtype == value.dtype for v in o.inputs):
            inputs = []
            for v in o.inputs:
                if v is None:
                    return None
                at_input = axis - rank + len(v.shape)
                if v.const is not None and (at_input < 0 or v.shape[at_input] == 1):
                    inputs.append(self._constants(v.const))
                elif at_input < 0 or v.shape[at_input] != value.shape[axis]:
                    return None
                else:
                    inputs.append(self.elements(v, at_input, at))
            return self.operator(o, inputs, shape)
        return None

    def _constants(self, x: Array) -> Array:
        return np.array([self.constant(e) for e in x.reshape(-1)], np.int64).reshape(x.shape)

    def operator(self, o: Op, inputs: Sequence[Array], shape: tuple[int, ...]) -> Array:
        """Return the elements of an elementwise operator."""
        full = [np.broadcast_to(x, shape).reshape(-1).tolist() for x in inputs]
        return np.array([self.apply(o.op, *each) for each in zip(*full)], np.int64).reshape(shape)

    def reduce_pairs(self, o: Op, x: Array, shape: tuple[int, ...]) -> Array:
        """Return the elements of a reduction of two elements. The order of more is not known."""
        axes = reduced_axes(o)
        if axes is None or len(axes) != 1 or x.shape[axes[0]] != 2:
            raise Unknown
        pairs = zip(*(np.take(x, i, axes[0]).reshape(-1).tolist() for i in (0, 1)))
        return np.array([self.apply(_FOLDS[o.op], *p) for p in pairs], np.int64).reshape(shape)


class LoopExpressions(Expressions):
    """Expressions of the values in the body of a loop: `captured` maps inputs of the body to values before it."""

    def __init__(self, size: Any, outer: Mapping[Value, Op], inner: Mapping[Value, Op], place: Value) -> None:
        super().__init__(size, outer)
        self.inner, self.captured = inner, dict[Value, Value]()
        self._inside = {place: np.array(self.taken, np.int64)}

    def of(self, value: Value) -> Array:
        """Return the expressions of a value of the body, in which the axis of the elements has size 1."""
        if value not in self._inside:
            self._inside[value] = self._of(value)
        return self._inside[value]

    def _axis(self, value: Value) -> int:
        axes = [i for i, d in enumerate(value.shape) if d == self.size]
        if len(axes) != 1:
            raise Unknown
        return axes[0]

    def _shape(self, value: Value) -> tuple[int, ...]:
        return shape_of_one(value.shape, self._axis(value) if self.size in value.shape else -1)

    def _of(self, value: Value) -> Array:
        if value.const is not None:
            return self._constants(value.const)
        if value in self.captured:
            return self.elements(self.captured[value], self._axis(value), self.other)
        o = producer(self.inner, value)
        x = None if o is None else o.input(0)
        if o is None or x is None:
            raise Unknown
        shape = self._shape(value)
        if o.op == "Gather":
            at, along = self.of(o.inputs[1] or x), o["axis"] % len(x.shape)
            if x not in self.captured or at.size != 1:
                raise Unknown
            return self.elements(self.captured[x], along, at.item()).reshape(shape)
        if o in VIEWS:
            sizes = [math.prod(v.shape[: self._axis(v)]) for v in (x, value) if self.size in v.shape]
            if len(sizes) == 2 and sizes[0] != sizes[1]:
                raise Unknown  # the elements are along another axis, in another order
            return self.of(x).reshape(shape)
        if o.op == "Slice":
            if x.shape.count(self.size) != value.shape.count(self.size):
                raise Unknown
            return _cut(self.of(x), o)
        if o.op in _FOLDS:
            return self.reduce_pairs(o, self.of(x), shape)
        if _is_plain(o) and None not in o.inputs:
            return self.operator(o, [self.of(v) for v in o.inputs if v is not None], shape)
        raise Unknown


def shape_of_one(shape: Sequence[Any], axis: int) -> tuple[int, ...]:
    """Return a shape with size 1 along an axis. Raises Unknown for other sizes that are dynamic."""
    sizes = [1 if i == axis else d for i, d in enumerate(shape)]
    if any(type(d) is not int for d in sizes) or math.prod(sizes) > _MAX_NODES:
        raise Unknown
    return tuple(sizes)


def _is_plain(o: Op) -> bool:
    return o in ELEMENTWISE and not o.attrs


def _cut(x: Array, o: Op) -> Array:
    cuts = slice_cuts(o)
    if cuts is None:
        raise Unknown
    for cut in cuts:
        if x.shape[cut.axis] <= max(cut.indices, default=0):
            raise Unknown
        x = np.take(x, cut.indices, cut.axis)
    return x
