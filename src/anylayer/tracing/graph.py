"""The Graph that tracing records: ONNX operators (opset 18) as plain dataclasses.

Constants stay NumPy arrays on their Value until an engine or a writer takes them; equal small constants and
equal operations are entered once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

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
    `scope` names the network's node it belongs to."""

    op: str
    inputs: list[Value | None]
    outputs: list[Value]
    attrs: dict[str, Any] = field(default_factory=dict)
    place: str = ""
    scope: str = ""


class Graph:
    """Operators in computing order, with `inputs` and `outputs`."""

    def __init__(self, prefix: str = "") -> None:
        self.prefix = prefix
        self.inputs: list[Value] = []
        self.outputs: list[Value] = []
        self.ops: list[Op] = []
        self._constants: dict[Any, Value] = {}
        self._known: dict[Any, list[Value]] = {}
        self._count = 0

    def name(self, stem: str) -> str:
        """A name not used before in this graph."""
        self._count += 1
        return f"{self.prefix}{stem}_{self._count}"

    def input(self, name: str, shape: Sequence[Any], dtype: np.dtype[Any]) -> Value:
        """A new graph input."""
        value = Value(name, tuple(shape), dtype)
        self.inputs.append(value)
        return value

    def constant(self, array: Any) -> Value:
        """The Value of a constant array; equal small ones and the same large one are one Value."""
        array = np.asarray(array)
        if array.nbytes <= _SMALL:
            key: Any = (array.dtype.str, array.shape, array.tobytes())
        else:
            key = (id(array),)
        found = self._constants.get(key)
        if found is None:
            found = Value(self.name("const"), array.shape, array.dtype, array)
            self._constants[key] = found  # holding the array keeps its id from being reused
        return found

    def emit(
        self,
        op: str,
        inputs: Sequence[Value | None],
        types: Sequence[tuple[Sequence[Any], Any]],
        attrs: dict[str, Any] | None = None,
        *,
        place: str = "",
        scope: str = "",
    ) -> list[Value]:
        """Append an operator with outputs of the given (shape, dtype); an equal one already there is reused."""
        attrs = {k: v for k, v in (attrs or {}).items() if v is not None}
        key = (op, tuple(map(id, inputs)), repr(sorted(attrs.items())), len(types))
        known = self._known.get(key)
        if known is not None:
            return known
        outputs = [Value(self.name(op.lower()), tuple(s), np.dtype(d)) for s, d in types]
        self.ops.append(Op(op, list(inputs), outputs, attrs, place, scope))
        self._known[key] = outputs
        return outputs

    def __str__(self) -> str:
        lines = [f"({', '.join(map(repr, self.inputs))}) -> ({', '.join(map(repr, self.outputs))})"]
        for o in self.ops:
            args = ", ".join("-" if v is None else v.name for v in o.inputs)
            attrs = " ".join(f"{k}={v}" for k, v in o.attrs.items())
            lines.append(f"  {', '.join(map(repr, o.outputs))} = {o.op}({args}) {attrs}")
        return "\n".join(lines)
