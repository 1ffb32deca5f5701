"""The graph that tracing records: ONNX operators (opset 18) as plain dataclasses.

Constants stay NumPy arrays on their Value until an engine or a writer takes them. Equal constants and equal
operators are stored once. Values and operators are compared by identity, so both can be keys of a dictionary.
"""

from __future__ import annotations

import copy
import zlib
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from anylayer.graph.attributes import ATTRIBUTES
from anylayer.graph.guards import SelectionKey
from anylayer.graph.place import refusal, user_place
from anylayer.graph.repetition import TooManyOperators, take_operator
from anylayer.graph.sized import SizedArray, copied, elements_of
from anylayer.graph.symbolic import Size
from anylayer.network import Array, DType, TensorType

OPSET = 18
_SMALL = 4096
"""The size of the largest constant that is copied and compared by content, in bytes."""


@dataclass(slots=True, eq=False)
class Value:
    """A tensor of a graph.

    A dimension of `shape` is an int (a Size where it is symbolic), or a Dim where the size is dynamic. `const`
    holds the data of a constant (a SizedArray where it is computed from symbolic sizes), and is None for an input
    and for the output of an operator. `elements` are those of its type.
    """

    name: str
    shape: tuple[Any, ...]
    dtype: DType
    const: Array | None = None
    elements: tuple[Any, ...] | None = None

    @property
    def type(self) -> TensorType:
        return TensorType(self.shape, self.dtype, self.elements)

    def __repr__(self) -> str:
        return f"{self.name}: {self.type}" + (" const" if self.const is not None else "")


@dataclass(slots=True, eq=False)
class Op:
    """One ONNX operator, or a call.

    An absent optional input is None. `place` is the source line that recorded the operator. `scope` is the name of
    the network's node that it belongs to.

    The body of a Loop maps the step, the condition, the states and further inputs of the operator, which are the
    same in each step, to the condition, the states and the rows. The attribute `states` is the number of states.
    The outputs are the last states and the stacked rows. It reads nothing else: its body is closed.

    With a `domain` other than "" it is a call of something that is not an ONNX operator, and no rewrite rule looks
    into it. Without `kept` it calls `body`, a graph over the same inputs. With `kept` it calls an operator of the
    target, whose last inputs are its weights; `body` is then the graph that this operator computes from the other
    inputs, or None if it is not known.
    """

    op: str
    inputs: list[Value | None]
    outputs: list[Value]
    attrs: dict[str, Any] = field(default_factory=dict)
    place: str = ""
    scope: str = ""
    domain: str = ""
    body: Graph | None = None
    kept: bool = False

    @property
    def first(self) -> Value:
        """The first input. Raises ValueError if it is absent."""
        value = self.inputs[0]
        if value is None:
            raise ValueError(f"{self.op} has no first input")
        return value

    def input(self, i: int) -> Value | None:
        """Return input `i`, or None if it is absent."""
        return self.inputs[i] if i < len(self.inputs) else None

    def constant(self, i: int) -> Array | None:
        """Return the elements of input `i`, or None if it is absent or computed."""
        value = self.input(i)
        return None if value is None else value.const

    def __getitem__(self, name: str) -> Any:
        """Return an attribute. If the operator does not have it, return the default of ONNX's schema, None where
        there is none. Raises KeyError for an attribute that ONNX's operator does not take.
        """
        if name in self.attrs:
            return self.attrs[name]
        declared = {} if self.domain else ATTRIBUTES.get(self.op, {})
        if name not in declared:
            raise KeyError(f"{self.op} has no attribute '{name}'")
        return declared[name]


@dataclass(frozen=True, slots=True)
class Decisions:
    """The decisions by data in a traced function.

    `conditions` is a graph of the same inputs that returns the conditions. A path of `paths` is the conditions, by
    index, and their answers; its text is the user's line of the last one.
    """

    conditions: Graph
    paths: dict[tuple[tuple[int, bool], ...], str]


class Graph:
    """Operators in computing order, with `inputs` and `outputs`.

    prefix: the beginning of the names of new values.
    scope: the scope of new operators.

    `notes` holds remarks about the traced code for its user, each with its line. `limit` is the largest number of
    operators. With `strict`, a traced array refuses to be printed. `errstate` is the state of NumPy's error
    handling at the beginning of the trace. `producers` maps each value to the operator that computes it. `counts`
    are the sizes that depend on the data of a value: the number of elements that a mask selects. `selections` are
    the outputs that have these sizes first. `selects` says whether the code has such sizes, also where no
    operator has one. `inside` are the values of single iterations of a loop, which do not exist outside of it.
    `decided` are the decisions by data, if there are any.
    `nothing` are outputs without elements that get the type of those of other paths.
    `filled` maps a filled selection and a number to a boolean: whether as many elements are selected.
    """

    def __init__(self, prefix: str = "", scope: str = "") -> None:
        self.prefix = prefix
        self.scope = scope
        self.inputs: list[Value] = []
        self.outputs: list[Value] = []
        self.ops: list[Op] = []
        self.notes: list[str] = []
        self.limit = 100_000
        self.strict = False
        self.errstate: object = None
        self.producers: dict[Value, Op] = {}
        self.counts: dict[Value, Any] = {}
        self.selections: list[Value] = []
        self.selects = False
        self.inside: set[Value] = set()
        self.nothing: set[Value] = set()
        self.decided: Decisions | None = None
        self.filled: dict[tuple[SelectionKey, int], Value] = {}
        self._constants: dict[Any, Value] = {}
        self._digests: list[tuple[Array, int]] = []
        self._emitted: dict[Hashable, list[Value]] = {}
        self._names: set[str] = set()
        self._count = 0

    def twin(self) -> Graph:
        """Return another graph that shares the operators, constants and names of this one.

        An array that one run of a function keeps for the next one belongs to another graph, which is refused.
        """
        return copy.copy(self)

    def name(self, stem: str) -> str:
        """Return a name that is not used in this graph, made of the prefix, `stem` and a number."""
        while True:
            self._count += 1
            name = f"{self.prefix}{stem}_{self._count}"
            if name not in self._names:
                self._names.add(name)
                return name

    def reserve(self, names: Iterable[str]) -> None:
        """Reserve these names, so that no output of a later operator gets one of them."""
        self._names.update(names)

    def input(self, name: str, shape: Sequence[Any], dtype: DType) -> Value:
        """Append an input and return its value."""
        self._names.add(name)
        value = Value(name, tuple(shape), dtype)
        self.inputs.append(value)
        return value

    def note(self, text: str) -> None:
        """Add a note that begins with the user's line. An equal note is added once."""
        place = user_place()
        text = f"{place}: {text}" if place else text
        if text not in self.notes:
            self.notes.append(text)

    def constant(self, array: Any, *, trusted: bool = False) -> Value:
        """Return the value of a constant array.

        Equal arrays share a value. Those of at most 4096 bytes are copied. The digest of a larger array that is
        writeable is kept for `check_constants`, unless the array is `trusted` not to change: of such arrays, and
        of those that are read-only, only equal views of the same memory share a value.
        """
        array = array if type(array) is SizedArray else np.asarray(array)
        digest = None
        if array.nbytes <= _SMALL or type(array) is SizedArray:
            key: Any = (array.dtype.str, array.shape, array.tobytes(), elements_of(array))
        else:
            if array.flags.writeable and not trusted:
                digest = _digest(array)
            key = (array.dtype.str, array.shape, digest)
            other = None if digest is None else self._constants.get(key)
            if digest is None or (other is not None and not _same_bytes(other.const, array)):
                key = (array.ctypes.data, array.dtype.str, array.shape, array.strides, digest)
        value = self._constants.get(key)
        if value is None:
            stored = copied(array) if array.nbytes <= _SMALL else array
            if digest is not None:
                self._digests.append((stored, digest))
            value = Value(self.name("const"), array.shape, array.dtype, stored)
            self._constants[key] = value  # keeps the array alive, so that its memory is not reused
        return value

    def check_constants(self) -> None:
        """Raise TraceError if an array was changed after it became a constant."""
        for array, digest in self._digests:
            if _digest(array) != digest:
                raise refusal(
                    f"an array {array.dtype.name}{list(array.shape)} is changed after traced arrays have used it; "
                    "use a fresh array, or a .copy() of it, for the second use"
                )
        self._digests.clear()

    def emit(
        self,
        op: str,
        inputs: Sequence[Value | None],
        types: Sequence[tuple[Sequence[Any], Any]],
        attrs: dict[str, Any] | None = None,
        *,
        place: str | None = None,
        scope: str | None = None,
        names: Sequence[str] = (),
        domain: str = "",
        body: Graph | None = None,
        kept: bool = False,
        is_new: bool = False,
    ) -> list[Value]:
        """Append an operator and return its outputs, or return the outputs of an equal operator.

        types: (shape, dtype) of each output.
        attrs: attributes; those that are None are left out.
        place: the source line; the user's line if it is not given.
        names: names for the outputs, used where they are free.
        is_new: append the operator even if there is an equal one.
        The other arguments are as in Op. Raises TooManyOperators.
        """
        take_operator()
        attrs = {k: v for k, v in (attrs or {}).items() if v is not None}
        key = _key(op, domain, body, inputs, attrs, len(types))
        if self.inside:
            self.need_outside(inputs)
        outputs_of_equal = self._emitted.get(key)
        if outputs_of_equal is not None and not is_new:
            return outputs_of_equal
        if len(self.ops) >= self.limit:
            raise refusal(
                f"this records more than {self.limit} operators; compute whole slices instead of single elements",
                kind=TooManyOperators,
            )
        outputs = [
            Value(self._if_free(names[i] if names else "") or self.name(op.lower()), tuple(s), np.dtype(d))
            for i, (s, d) in enumerate(types)
        ]
        new = Op(
            op,
            list(inputs),
            outputs,
            attrs,
            user_place() if place is None else place,
            self.scope if scope is None else scope,
            domain,
            body,
            kept,
        )
        self.ops.append(new)
        self.producers.update(dict.fromkeys(outputs, new))
        self._emitted[key] = outputs
        return outputs

    def need_outside(self, values: Iterable[Value | None]) -> None:
        """Raise TraceError if one of these values belongs to an iteration of a loop that has ended."""
        if not self.inside.isdisjoint(v for v in values if v is not None):
            raise refusal(
                "an array that one iteration of a loop has computed is used after the loop, whose number of "
                "iterations is known only when the network runs; append it to a list, or write it to an array"
            )

    def forget(self, first: int) -> None:
        """Remove the operators from number `first` on. Their outputs are inside of a loop from now on."""
        outputs = {v for o in self.ops[first:] for v in o.outputs}
        for o in self.ops[first:]:
            key = _key(o.op, o.domain, o.body, o.inputs, o.attrs, len(o.outputs))
            if self._emitted.get(key) is o.outputs:
                del self._emitted[key]
        del self.ops[first:]
        for v in outputs:
            del self.producers[v]
        self.inside |= outputs
        self.selections[:] = [v for v in self.selections if v not in outputs]

    def append_copy(
        self,
        o: Op,
        inputs: Sequence[Value | None],
        *,
        types: Sequence[tuple[Sequence[Any], Any]] | None = None,
        scope: str | None = None,
        body: Graph | None = None,
        is_new: bool = False,
    ) -> list[Value]:
        """Append a copy of an operator of another graph, on inputs of this graph, and return its outputs.

        types, scope, body, is_new: as in `emit` and Op; as in the other operator where they are not given.
        """
        return self.emit(
            o.op,
            inputs,
            [(v.shape, v.dtype) for v in o.outputs] if types is None else types,
            o.attrs,
            place=o.place,
            scope=o.scope if scope is None else scope,
            names=[v.name for v in o.outputs],
            domain=o.domain,
            body=o.body if body is None else body,
            kept=o.kept,
            is_new=is_new,
        )

    def _if_free(self, name: str) -> str:
        """Return the name and mark it as used, or return "" if it is used already."""
        if not name or name in self._names:
            return ""
        self._names.add(name)
        return name

    def rename(self, value: Value, name: str) -> None:
        """Give a value another name, if that name is free."""
        value.name = self._if_free(name) or value.name

    @property
    def operator_count(self) -> int:
        """The number of operators, with those of bodies."""
        return sum(1 if o.body is None else 1 + o.body.operator_count for o in self.ops)

    def with_loops(self, function: Callable[[Op, Graph], Op]) -> Graph:
        """Return the graph with `function` of each loop and its body in place of the loop, as a new graph."""
        if not any(o.op == "Loop" for o in self.ops):
            return self
        new = self.twin()
        new.ops = [o if o.op != "Loop" or o.body is None else function(o, o.body) for o in self.ops]
        new.producers = {v: o for o in new.ops for v in o.outputs}
        new._emitted = {}
        return new

    def drop_dead(self) -> None:
        """Remove the operators that no output depends on."""
        needed = {*self.outputs, *self.filled.values()}
        while True:
            kept: list[Op] = []
            for o in reversed(self.ops):
                if any(v in needed for v in o.outputs):
                    needed.update(v for v in o.inputs if v is not None)
                    kept.append(o)
            selections = self._needed_selections(needed) if self.selections else []
            if not selections:
                break
            needed.update(selections)
        self.ops = kept[::-1]
        self._emitted = {}

    def _needed_selections(self, needed: Set[Value]) -> list[Value]:
        """Return selections that no output depends on, but from whose sizes needed constants are computed.

        The first selection of each size comes before these constants are used.
        """
        names = {n for v in needed for e in elements_of(v.const) or () for n in getattr(e, "symbols", ())}
        defined = {d.expression: v for v in self.selections[::-1] for d in v.shape if type(d) is Size}
        return [v for e, v in defined.items() if v not in needed and e.symbols <= names]

    def inline(self, other: Graph, inputs: Sequence[Value], scope: str = "") -> list[Value]:
        """Append copies of another graph's operators and return the values of its outputs.

        inputs: the values of this graph that take the place of the other graph's inputs.
        scope: the scope of the copies; that of each operator if it is "".

        Equal operators and constants of the two graphs are shared. Names are kept where they are free. Raises
        ValueError if the number, dtypes or shapes of the inputs differ.
        """
        if len(inputs) != len(other.inputs):
            raise ValueError(f"{len(other.inputs)} inputs are needed, got {len(inputs)}")
        values: dict[Value, Value] = {}
        for want, got in zip(other.inputs, inputs):
            if want.dtype != got.dtype or want.shape != got.shape:
                raise ValueError(f"{want!r} is needed, got {got!r}")
            values[want] = got

        def mapped(value: Value) -> Value:
            value_here = values.get(value)
            if value_here is None:
                if value.const is None:
                    raise ValueError(f"{value!r} is computed by no operator of the graph")
                value_here = values[value] = self.constant(value.const, trusted=True)
            return value_here

        for o in other.ops:
            inputs_here = [None if v is None else mapped(v) for v in o.inputs]
            outputs = self.append_copy(o, inputs_here, scope=scope or o.scope)
            if any(v in other.selections and _sizes(v) != _sizes(w) for v, w in zip(o.outputs, outputs)):
                outputs = self.append_copy(o, inputs_here, scope=scope or o.scope, is_new=True)
            values.update(zip(o.outputs, outputs))
        self.notes.extend(n for n in other.notes if n not in self.notes)
        self.counts.update({values[v]: d for v, d in other.counts.items() if v in values})
        self.selections.extend(values[v] for v in other.selections if v in values)
        outputs = [mapped(v) for v in other.outputs]
        self.nothing.update(values[v] for v in other.nothing if v in values)
        return outputs

    def __str__(self) -> str:
        lines = [f"({', '.join(map(repr, self.inputs))}) -> ({', '.join(map(repr, self.outputs))})"]
        for o in self.ops:
            args = ", ".join("-" if v is None else v.name for v in o.inputs)
            attrs = " ".join(f"{k}={v}" for k, v in o.attrs.items())
            lines.append(f"  {', '.join(map(repr, o.outputs))} = {o.op}({args}) {attrs}")
        return "\n".join(lines)


def _sizes(value: Value) -> list[Any]:
    """Return the sizes of a value, with expressions in place of those that depend on data."""
    return [getattr(d, "expression", d) for d in value.shape]


def _key(
    op: str,
    domain: str,
    body: Graph | None,
    inputs: Sequence[Value | None],
    attrs: Mapping[str, object],
    outputs: int,
) -> Hashable:
    """Return what is equal for two operators that compute the same."""
    return op, domain, body, tuple(inputs), repr(sorted(attrs.items())) if attrs else "", outputs


def _bytes(array: Array) -> Array:
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8)


def _digest(array: Array) -> int:
    return zlib.crc32(_bytes(array).data)


def _same_bytes(a: Array | None, b: Array) -> bool:
    return a is not None and np.array_equal(_bytes(a), _bytes(b))
