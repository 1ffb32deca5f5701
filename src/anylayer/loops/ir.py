"""The loop IR: scalars that are computed inside loops, and the statements that store them.

A Scalar is an expression without side effects. Equal scalars of one Scalars table are one object, so a scalar that
is used twice is computed once. Indices are exact integer expressions (anylayer.graph.expressions) of loop
variables, sizes and numbers that are read from data.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from anylayer.graph.expressions import Atom, Expression, constant, of_atom
from anylayer.network import Array

INT = np.dtype(np.int64)
BOOL = np.dtype(np.bool_)
NEAR = "int32"
"""The `data` of a function whose value is an int64 that certainly fits into 32 bits."""
CHECKS = ("inside", "below")
"""Functions that check an index: "inside" any index, "below" one that is at least 0 and fits into 32 bits."""
DTYPES = frozenset(("bool", "float32", "float64", *(f"{u}int{n}" for u in ("", "u") for n in (8, 16, 32, 64))))
"""The names of the dtypes that loops compute with."""


@dataclass(slots=True, eq=False)
class Buffer:
    """An array in memory, in C order.

    kind: "input", "output", "temporary", "blob", or "table" for a constant, whose values are in `data`. `pitches`
    are the distances between neighbours on each axis, and `start` is the position of the first element, where the
    caller decides on them. Integers in it are at least 0 and below `limit`, if it is not 0.
    """

    name: str
    dtype: np.dtype[Any]
    shape: tuple[Expression, ...]
    kind: str
    data: Array | None = None
    pitches: tuple[Expression, ...] = ()
    start: Expression = field(default_factory=lambda: constant(0))
    limit: int = 0

    def offset(self, indices: Sequence[Expression]) -> Expression:
        """Return the position of an element in memory."""
        if self.pitches:
            return sum((i * pitch for i, pitch in zip(indices, self.pitches)), start=self.start)
        position = constant(0)
        for index, size in zip(indices, self.shape):
            position = position * size + index
        return position

    @property
    def count(self) -> Expression:
        """The number of elements."""
        return product(self.shape)


@dataclass(frozen=True, slots=True, eq=False)
class Scalar:
    """A number that is computed inside loops.

    op: "const" (`data` is a Python number), "index" (`data` is an Expression), "load" (`data` is the Buffer and
    the Expression of the position), "local" (`data` is a Local), or the name of a function of `args` (`data` is
    None or NEAR).
    """

    op: str
    dtype: np.dtype[Any]
    args: tuple[Scalar, ...] = ()
    data: Any = None

    @property
    def expression(self) -> Expression | None:
        """The value of an index, or the position of the element that is loaded."""
        return self.data[1] if self.op == "load" else self.data if self.op == "index" else None

    @property
    def symbols(self) -> frozenset[str]:
        """The names of the symbols in its expression."""
        return frozenset() if self.expression is None else self.expression.symbols


@dataclass(slots=True, eq=False)
class Local:
    """A local variable of the generated function, in which loops accumulate a number."""

    name: str
    dtype: np.dtype[Any]


# ---------------------------------------------------------------------- statements


class Statement:
    """The base class of statements."""

    __slots__ = ()

    @property
    def scalars(self) -> list[Scalar]:
        """The scalars that it uses itself, apart from those of its body."""
        scalars = (getattr(self, name, None) for name in ("value", "limit", "condition"))
        return [x for x in scalars if x is not None]


@dataclass(slots=True, eq=False)
class Comment(Statement):
    """A line of text for the reader."""

    text: str


@dataclass(slots=True, eq=False)
class Store(Statement):
    """Write a scalar to an element of a buffer. `how` is "" to assign it, or "add", "mul", "min", "max" to combine
    it with the old value.
    """

    buffer: Buffer
    offset: Expression
    value: Scalar
    how: str = ""


@dataclass(slots=True, eq=False)
class Set(Statement):
    """Write a scalar to a local: declare it (`how` is "="), assign to it (""), or combine both as in Store.

    "ArgMax" and "ArgMin", directly inside a loop, write the number of the iteration with the first largest or
    smallest scalar; NaN comes before all others.
    """

    local: Local
    value: Scalar
    how: str


@dataclass(slots=True, eq=False)
class Sort(Statement):
    """Sort a row of `size` elements, and store its first `count` elements and their positions in the row.

    Equal elements keep their order; NaN is larger than any number. The row begins at `start` of `source`, and its
    elements are `step` apart. The results begin at `target` of `values` and `places`, with the same distance.
    """

    source: Buffer
    start: Expression
    step: Expression
    size: Expression
    values: Buffer
    places: Buffer
    target: Expression
    count: Expression
    largest: bool

    @property
    def buffers(self) -> tuple[Buffer, ...]:
        """The arrays that it reads and writes."""
        return self.source, self.values, self.places


@dataclass(slots=True, eq=False)
class Suppress(Statement):
    """Apply NMS to boxes (N, P, 4) with scores (N, C, P), as `ops.nms` does.

    `sizes` are (N, C, P). `rows` gets the selected boxes, padded with -1, and `count` their number. A box is
    dropped if its overlap with a better one exceeds `overlap`. Scores must exceed `least`, if it is not None.
    """

    scores: Buffer
    boxes: Buffer
    rows: Buffer
    count: Buffer
    sizes: Sequence[Expression]
    kept: int
    overlap: float
    least: float | None

    @property
    def buffers(self) -> tuple[Buffer, ...]:
        """The arrays that it reads and writes."""
        return self.scores, self.boxes, self.rows, self.count


@dataclass(slots=True, eq=False)
class Return(Statement):
    """Return a scalar from the helper function that a printer writes for the body of a loop."""

    value: Scalar


@dataclass(slots=True, eq=False)
class If(Statement):
    """Run `body` where a condition holds."""

    condition: Scalar
    body: list[Any]


@dataclass(slots=True, eq=False)
class Branch(If):
    """An If whose body is a scope: values that only the body reads are computed inside of it."""


@dataclass(slots=True, eq=False)
class Repeat(Statement):
    """Run `body` while a condition holds, at most `limit` times. `var` is the number of the iteration.

    Only the last statements of the body write values that the next iteration reads.
    """

    var: str
    limit: Scalar
    condition: Scalar | None
    body: list[Any]


@dataclass(slots=True, eq=False)
class Let(Statement):
    """Assign a scalar to a named variable, because it is used more than once or is loop-invariant."""

    name: str
    value: Scalar


@dataclass(slots=True, eq=False)
class Loop(Statement):
    """Repeat `body` for each value of a variable from 0 to `extent` - 1.

    The iterations of a parallel loop may run in any order. `more` lists (variable, extent) of the loops directly
    inside that are collapsed with it into one loop, as by `collapse` in OpenMP.
    """

    var: str
    extent: Expression
    body: list[Any]
    parallel: bool = False
    more: Sequence[tuple[str, Expression]] = ()

    @property
    def variables(self) -> list[str]:
        """All variables, the outermost first."""
        return [self.var, *(name for name, _ in self.more)]

    @property
    def extents(self) -> list[Expression]:
        """The extents of all variables."""
        return [self.extent, *(extent for _, extent in self.more)]


@dataclass(slots=True)
class Argument:
    """An input or output of a function: its name, its dtype, and its shape as expressions of the sizes."""

    name: str
    dtype: np.dtype[Any]
    shape: tuple[Expression, ...]


@dataclass(slots=True)
class LoopProgram:
    """A graph lowered to loops.

    `sizes` are the symbols of the open sizes, and `conditions` the guards that they must fulfil. An index that is
    read from data is a symbol, which `data` maps to its scalar. `extents` maps each loop variable and each such
    symbol to its number of values. `checks` says whether the loops check indices when they run. `params` lists
    (name, ParamNumber) for the params that are parameters of the function. `counts` maps the symbols of sizes that
    depend on data to the locals that hold them, with the largest sizes. The last output has the sizes, if any.
    """

    inputs: list[Argument]
    outputs: list[Argument]
    sizes: list[str]
    conditions: list[Any]
    buffers: list[Buffer] = field(default_factory=list)
    body: list[Statement] = field(default_factory=list)
    data: Mapping[str, Scalar] = field(default_factory=dict)
    extents: Mapping[str, Expression] = field(default_factory=dict)
    checks: bool = False
    params: list[tuple[str, Any]] = field(default_factory=list)
    counts: Mapping[str, tuple[Local, int]] = field(default_factory=dict)


def substituted(e: Expression, values: Mapping[str, Expression]) -> Expression:
    """Return an expression with some of its symbols replaced."""
    if not e.symbols & values.keys():
        return e
    total = constant(0)
    for monomial, factor in e.terms.items():
        term = constant(factor)
        for atom, power in monomial:
            one = _atom_substituted(atom, values)
            for _ in range(power):
                term = term * one
        total = total + term
    return total


def _atom_substituted(atom: Atom, values: Mapping[str, Expression]) -> Expression:
    if not atom.function:
        return values.get(atom.name, of_atom(atom))
    if atom.function not in ("//", "min", "max"):
        return of_atom(atom)
    parts = [substituted(a, values) for a in atom.arguments]
    if atom.function == "//":
        return parts[0] // parts[1]
    return extremum(atom.function, *parts)


def product(sizes: Iterable[Expression]) -> Expression:
    """Return the product of expressions."""
    return math.prod(sizes, start=constant(1))


def extremum(function: str, *parts: Expression) -> Expression:
    """Return the "min" or "max" of expressions."""
    numbers = [p.constant for p in parts if p.constant is not None]
    if len(numbers) == len(parts):
        return constant((min if function == "min" else max)(n for n in numbers if n is not None))
    return of_atom(Atom("", function, tuple(sorted(parts, key=str))))


def atoms_of(e: Expression) -> Iterator[Atom]:
    """Yield the functions in an expression, including those in arguments of other functions."""
    for monomial in e.terms:
        for atom, _ in monomial:
            if atom.function:
                yield atom
                if atom.function in ("//", "min", "max"):
                    for argument in atom.arguments:
                        yield from atoms_of(argument)


def all_statements(statements: Sequence[Any]) -> Iterator[Any]:
    """Yield the statements and those inside them, for example the body of a loop after the loop itself."""
    for s in statements:
        yield s
        yield from all_statements(getattr(s, "body", ()))


def stores_of(statements: Sequence[Any]) -> Iterator[Store]:
    """Yield the stores among statements, including those inside loops."""
    return (s for s in all_statements(statements) if isinstance(s, Store))


def used_scalars(statements: Sequence[Any], data: Mapping[str, Scalar]) -> list[Scalar]:
    """Return the scalars that statements compute. data: maps symbols to the scalars that they stand for."""
    scalars = [x for s in all_statements(statements) for x in s.scalars]
    scalars += [x for s in stores_of(statements) for x in behind(s.offset.symbols, data)]
    return with_operands(scalars, data)


def with_operands(scalars: Iterable[Scalar], data: Mapping[str, Scalar]) -> list[Scalar]:
    """Return scalars, and those that they are computed from."""
    visited: dict[Scalar, None] = {}
    pending = [*scalars]
    while pending:
        x = pending.pop()
        if x not in visited:
            visited[x] = None
            pending += [*x.args, *behind(x.symbols, data)]
    return list(visited)


def behind(symbols: Iterable[str], data: Mapping[str, Scalar]) -> list[Scalar]:
    """Return the scalars that symbols stand for."""
    return [data[name] for name in sorted(symbols) if name in data]


def nested(
    loops: Sequence[tuple[str, Expression]], inner: list[Statement], parallel: bool = True, serial: int = 1
) -> list[Statement]:
    """Return statements nested in loops, of which the first is the outermost. If `parallel`, all loops except the
    innermost `serial` ones are collapsed into one parallel loop.
    """
    repeated = [(name, extent) for name, extent in loops if extent.constant != 1]
    outer = repeated[: max(len(repeated) - serial, 1)] if parallel else []
    for name, extent in reversed(repeated[len(outer) :]):
        inner = [Loop(name, extent, inner)]
    return [Loop(outer[0][0], outer[0][1], inner, True, outer[1:])] if outer else inner
