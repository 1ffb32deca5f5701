"""The Graph that tracing records: ONNX operators (opset 18) as plain dataclasses.

Constants stay NumPy arrays on their Value until an engine or a writer takes them; equal constants and equal
operations are entered once.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from anylayer.errors import TraceError
from anylayer.graph.place import refusal, user_place
from anylayer.network import Array, TensorType

OPSET = 18
_SMALL = 4096


@dataclass(slots=True, eq=False)
class Value:
    """A tensor of the graph. `const` holds its data when it is known before the network runs.

    A dimension of `shape` is an int, or a tracing.Dim where the size depends on data.
    """

    name: str
    shape: tuple[Any, ...]
    dtype: np.dtype[Any]
    const: Array | None = None

    @property
    def type(self) -> TensorType:
        return TensorType(self.shape, self.dtype)

    def __repr__(self) -> str:
        return f"{self.name}: {self.type}" + (" const" if self.const is not None else "")


@dataclass(slots=True, eq=False)
class Op:
    """One ONNX operator. An absent optional input is None. `place` is the source line that recorded it;
    `scope` names the network's node it belongs to.

    A `domain` other than "" makes it a call of something that is no operator of ONNX: of `body`, a graph over
    the same inputs, or, where it is `kept`, of an operator that the target knows: then `body` is what that should
    compute from the inputs without the last ones, its weights, or None where nobody knows. No rule looks into it.
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


class TooManyOperators(TraceError):
    """A graph's limit is reached."""


class Graph:
    """Operators in computing order, with `inputs` and `outputs`.

    `notes` tell what the traced code does that its user may want to know, each with its line. `limit` is the
    number of operators from which on recording is refused. Where it is `strict` a traced array gives no text;
    `errstate` is the state of NumPy's error handling that recording began with.
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
        self._constants: dict[Any, Value] = {}
        self._digests: list[tuple[Array, int]] = []
        self._known: dict[Any, list[Value]] = {}
        self._names: set[str] = set()
        self._count = 0

    def name(self, stem: str) -> str:
        """A name not used before in this graph."""
        while True:
            self._count += 1
            name = f"{self.prefix}{stem}_{self._count}"
            if name not in self._names:
                self._names.add(name)
                return name

    def reserve(self, names: Iterable[str]) -> None:
        """Give no operator's output one of these names."""
        self._names.update(names)

    def input(self, name: str, shape: Sequence[Any], dtype: np.dtype[Any]) -> Value:
        """A new graph input."""
        self._names.add(name)
        value = Value(name, tuple(shape), dtype)
        self.inputs.append(value)
        return value

    def note(self, text: str) -> None:
        """Add `place: text` to the notes, once."""
        place = user_place()
        text = f"{place}: {text}" if place else text
        if text not in self.notes:
            self.notes.append(text)

    def constant(self, array: Any, *, trusted: bool = False) -> Value:
        """The Value of a constant array; equal small ones, and views of the same memory, are one Value.

        Small arrays are copied. A large one is shared; where it can be written and is not `trusted`, its
        digest is kept, and `check_constants` tells whether it was changed afterwards.
        """
        array = np.asarray(array)
        digest = None
        if array.nbytes <= _SMALL:
            key: Any = (array.dtype.str, array.shape, array.tobytes())
        else:
            if array.flags.writeable and not trusted:
                digest = _digest(array)
            key = (array.ctypes.data, array.dtype.str, array.shape, array.strides, digest)
        found = self._constants.get(key)
        if found is None:
            kept = array.copy() if array.nbytes <= _SMALL else array
            if digest is not None:
                self._digests.append((kept, digest))
            found = Value(self.name("const"), array.shape, array.dtype, kept)
            self._constants[key] = found  # holding the array keeps its memory from being reused
        return found

    def check_constants(self) -> None:
        """Refuse where an array was written to after it had been entered as a constant."""
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
    ) -> list[Value]:
        """Append an operator with outputs of the given (shape, dtype); an equal one already there is reused.

        `place` is the user's line when not given; `names` are wished for the outputs; the rest is as in Op.
        """
        attrs = {k: v for k, v in (attrs or {}).items() if v is not None}
        told = repr(sorted(attrs.items())) if attrs else ""
        key = (op, domain, body, tuple(inputs), told, len(types))
        known = self._known.get(key)
        if known is not None:
            return known
        if len(self.ops) >= self.limit:
            raise refusal(
                f"this makes more than {self.limit} operators; compute whole slices instead of single elements",
                kind=TooManyOperators,
            )
        outputs = [
            Value(self._wish(names[i] if names else "") or self.name(op.lower()), tuple(s), np.dtype(d))
            for i, (s, d) in enumerate(types)
        ]
        made = Op(
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
        self.ops.append(made)
        for value in outputs:
            self.producers[value] = made
        self._known[key] = outputs
        return outputs

    def again(
        self,
        o: Op,
        inputs: Sequence[Value | None],
        *,
        types: Sequence[tuple[Sequence[Any], Any]] | None = None,
        scope: str | None = None,
        body: Graph | None = None,
    ) -> list[Value]:
        """Append an operator of another graph, on inputs of this one; what is not given is as it was there."""
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
        )

    def _wish(self, name: str) -> str:
        if not name or name in self._names:
            return ""
        self._names.add(name)
        return name

    def drop_dead(self) -> None:
        """Remove the operators that no output needs."""
        needed = set(self.outputs)
        kept: list[Op] = []
        for o in reversed(self.ops):
            if any(v in needed for v in o.outputs):
                needed.update(v for v in o.inputs if v is not None)
                kept.append(o)
        self.ops = kept[::-1]
        self._known = {}

    def inline(self, other: Graph, inputs: Sequence[Value], scope: str = "") -> list[Value]:
        """Append another graph's operators, its inputs being the given values; return what its outputs are.

        Equal operators and constants of the two are shared. Names are kept where they are free here.
        Raises ValueError where the inputs do not fit.
        """
        if len(inputs) != len(other.inputs):
            raise ValueError(f"{len(other.inputs)} inputs are needed, got {len(inputs)}")
        known: dict[Value, Value] = {}
        for want, got in zip(other.inputs, inputs):
            if want.dtype != got.dtype or want.shape != got.shape:
                raise ValueError(f"{want!r} is needed, got {got!r}")
            known[want] = got

        def mapped(value: Value) -> Value:
            found = known.get(value)
            if found is None:
                if value.const is None:
                    raise ValueError(f"{value!r} is computed by no operator of the graph")
                found = known[value] = self.constant(value.const, trusted=True)
            return found

        for o in other.ops:
            outputs = self.again(o, [None if v is None else mapped(v) for v in o.inputs], scope=scope or o.scope)
            known.update((v, new) for v, new in zip(o.outputs, outputs))
        self.notes.extend(n for n in other.notes if n not in self.notes)
        return [mapped(v) for v in other.outputs]

    def __str__(self) -> str:
        lines = [f"({', '.join(map(repr, self.inputs))}) -> ({', '.join(map(repr, self.outputs))})"]
        for o in self.ops:
            args = ", ".join("-" if v is None else v.name for v in o.inputs)
            attrs = " ".join(f"{k}={v}" for k, v in o.attrs.items())
            lines.append(f"  {', '.join(map(repr, o.outputs))} = {o.op}({args}) {attrs}")
        return "\n".join(lines)


def _digest(array: Array) -> int:
    return zlib.crc32(np.ascontiguousarray(array).reshape(-1).view(np.uint8).data)
