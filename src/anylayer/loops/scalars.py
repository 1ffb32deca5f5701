"""Construction of scalars: equal scalars are one object, and integers computed from indices stay expressions."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from anylayer.graph.expressions import Expression, constant, symbol
from anylayer.graph.reals import Real
from anylayer.loops.intervals import LARGEST_SIZE, ScalarIntervals
from anylayer.loops.ir import (
    BOOL,
    INT,
    NEAR,
    Buffer,
    If,
    Local,
    Loop,
    Scalar,
    Statement,
    Store,
    atoms_of,
    stores_of,
    used_scalars,
    with_operands,
)
from anylayer.loops.space import Space
from anylayer.network import MAX_VALUES

DOUBLE = np.dtype(np.float64)
SINGLE = np.dtype(np.float32)
_REAL = {"+": "add", "-": "sub", "*": "mul", "/": "div", "**": "pow", "sqrt": "sqrt", "abs": "abs"}


_ROUNDED_ONCE = ("add", "sub", "mul")
"""Operations on two float32 that are rounded to the same float32 if they are computed in float64 first."""
_NEAR = ("cast", "add", "sub", "mul", "min", "max")
"""Functions of integers that are marked if they fit into 32 bits."""


class Scalars:
    """All scalars of one program.

    `data` maps the symbol of an index that is read from data to the scalar with its value. near: whether to mark
    the integers that certainly fit into 32 bits.
    """

    def __init__(self, space: Space, near: bool = False) -> None:
        self.space, self.near = space, near
        self.intervals = ScalarIntervals(space, space.known.ranges)
        limited = {s: (low, min(high, LARGEST_SIZE)) for s, (low, high) in space.known.ranges.items()}
        self.limited = ScalarIntervals(space, limited)
        self.data: dict[str, Scalar] = {}
        self._known: dict[Any, Scalar] = {}
        self._symbols: dict[Scalar, Expression] = {}

    def _one(self, op: str, dtype: np.dtype[Any], args: tuple[Scalar, ...] = (), data: Any = None) -> Scalar:
        key = (op, dtype, tuple(map(id, args)), repr(data) if op == "const" else data)
        scalar = self._known.get(key)
        if scalar is None:
            if self.near and dtype == INT and op in _NEAR:
                data = NEAR if self.limited.fits(Scalar(op, dtype, args)) else data
            scalar = self._known[key] = Scalar(op, dtype, args, data)
        return scalar

    def limited_by(self, x: Scalar) -> set[str]:
        """Return the sizes that must not be larger than LARGEST_SIZE, so that an integer fits into 32 bits."""
        if x.op == "index":
            return {
                s for e in (self.space.bound(x.data, above) for above in (False, True)) if e for s in e.symbols
            }
        if x.data == NEAR and self.intervals.fits(x):
            return set()
        return {s for a in x.args for s in self.limited_by(a)}

    def const(self, value: Any, dtype: Any) -> Scalar:
        """Return a number, rounded to this dtype."""
        kind = np.dtype(dtype)
        number = np.asarray(value).astype(kind).reshape(()).item()
        if kind == INT:
            return self._one("index", INT, data=constant(number))
        return self._one("const", kind, data=number)

    def index(self, e: Expression) -> Scalar:
        """Return an integer expression as an int64 scalar."""
        return self._one("index", INT, data=e)

    def load(self, buffer: Buffer, offset: Expression) -> Scalar:
        """Return an element of a buffer."""
        return self._one("load", buffer.dtype, data=(buffer, offset))

    def local(self, local: Local) -> Scalar:
        """Return the value of a local variable."""
        return self._one("local", local.dtype, data=local)

    def argument(self, param: Local) -> Scalar:
        """Return a param, which does not change while the function runs."""
        return self._one("argument", param.dtype, data=param)

    def real(self, number: Real) -> Scalar:
        """Return a number that is computed from sizes, in double precision."""
        if number.function == "float":
            inner = number.arguments[0]
            return self.element(inner.value({}) if isinstance(inner, Real) else inner, DOUBLE)
        return self.call(_REAL[number.function], DOUBLE, *(self.real(a) for a in number.arguments))

    def element(self, element: Any, dtype: np.dtype[Any]) -> Scalar:
        """Return an element of an array that is computed from sizes: a number, an Expression or a Real."""
        if isinstance(element, (Expression, Real)):
            element = self.index(element) if isinstance(element, Expression) else self.real(element)
        return self.cast(element, dtype) if isinstance(element, Scalar) else self.const(element, dtype)

    def cast(self, x: Scalar, dtype: Any) -> Scalar:
        """Return a scalar converted to another dtype."""
        kind = np.dtype(dtype)
        if x.dtype == kind:
            return x
        if kind == BOOL:
            return self.truth("ne", x, self.const(0, x.dtype))
        if x.op == "const" or (x.op == "index" and x.data.constant is not None):
            value = x.data if x.op == "const" else x.data.constant
            if kind.kind == "f" or float(value).is_integer():
                return self.const(np.array(value, x.dtype).astype(kind), kind)
        if kind == SINGLE and x.op in _ROUNDED_ONCE and x.dtype == DOUBLE:
            parts = [self._single(a) for a in x.args]
            if all(parts):
                return self.call(x.op, SINGLE, *(a for a in parts if a is not None))
        if kind == INT and x.op == "floor" and self._not_negative(x.args[0]):
            x = x.args[0]
        return self._one("cast", kind, (x,))

    def _single(self, x: Scalar) -> Scalar | None:
        """Return a float64 as a float32 if it certainly has the value of one: if it was one, or is a float32 that
        was rounded to an integer. None for others.
        """
        inner = x.args[0] if x.op == "cast" else x
        if inner.dtype == SINGLE:
            return inner
        whole = inner.op == "cast" and inner.dtype == INT and inner.args[0].dtype == SINGLE
        return self.cast(inner, SINGLE) if whole else None

    def _not_negative(self, x: Scalar) -> bool:
        """Return whether a scalar is certainly 0 or more."""
        interval = self.intervals.of(x)
        return interval is not None and interval[0] >= 0

    def call(self, op: str, dtype: Any, *args: Scalar) -> Scalar:
        """Return a function of scalars. Sums and products of indices stay expressions."""
        kind = np.dtype(dtype)
        if kind == INT and args and all(a.op == "index" for a in args):
            folded = self._folded(op, [a.data for a in args])
            if folded is not None:
                return self.index(folded)
        return self._one(op, kind, args)

    def _folded(self, op: str, parts: Sequence[Expression]) -> Expression | None:
        if op == "neg":
            return -parts[0]
        if len(parts) != 2:
            return None
        a, b = parts
        if op in ("add", "sub", "mul"):
            return a + b if op == "add" else a - b if op == "sub" else a * b
        if op in ("max", "min") and self.space.not_negative(a - b):
            return a if op == "max" else b
        if op in ("max", "min") and self.space.not_negative(b - a):
            return b if op == "max" else a
        if op in ("div", "mod") and (b.constant or 0) > 0 and self.space.not_negative(a):
            return self.space.quotient(a, b) if op == "div" else self.space.remainder(a, b)
        if op == "mod" and (b.constant or 0) > 0:
            return self.space.remainder(a, b)
        return None

    def truth(self, op: str, *args: Scalar) -> Scalar:
        """Return a function with a boolean result; a constant if the result is certain."""
        if op in ("lt", "gt") and args[0] is args[1]:
            return self.const(False, BOOL)
        if op in ("lt", "ge", "gt", "le") and all(a.op == "index" for a in args):
            a, b = (x.data for x in (args if op in ("lt", "ge") else args[::-1]))
            if self.space.not_negative(b - a - constant(1)):
                return self.const(op in ("lt", "gt"), BOOL)
            if self.space.not_negative(a - b):
                return self.const(op in ("ge", "le"), BOOL)
        if op in ("and", "or") and any(a.op == "const" for a in args):
            fixed = next(a for a in args if a.op == "const")
            other = args[1] if args[0] is fixed else args[0]
            return fixed if fixed.data == (op == "or") else other
        if op == "not" and args[0].op == "const":
            return self.const(not args[0].data, BOOL)
        return self.call(op, BOOL, *args)

    def choice(self, condition: Scalar, a: Scalar, b: Scalar) -> Scalar:
        """Return `a` where a condition holds, else `b`."""
        if condition.op == "const":
            return a if condition.data else b
        return a if a is b else self.call("where", a.dtype, condition, a, b)

    def position(self, x: Scalar, size: Expression) -> Expression:
        """Return the value of a scalar as an index into an axis. Negative values count from the end.

        The generated code checks the index when it runs, and reports an error if it is out of range.
        """
        if x.op == "index" and self.space.not_negative(x.data) and self.space.below(x.data, size):
            return x.data
        index, limit = x.data.constant if x.op == "index" else None, size.constant
        if index is not None and limit is not None and -limit <= index < limit:
            return constant(index % limit)
        x = self.cast(x, INT)
        interval = self.intervals.of(x)
        if interval is not None and interval[0] >= 0 and interval[1] < (size.constant or 0):
            return self.named(x, size)
        parts = self._row_and_column(x, size) if self.near else None
        if parts is not None:
            row, column, width = parts
            return self.position(row, size // width) * width + self.position(column, width)
        least = x.op not in ("index", "inside") and self._not_negative(x)
        if least and x.op == "min" and any(a.op == "index" and self.space.below(a.data, size) for a in x.args):
            return self.named(x, size)
        if x.op not in ("inside", "below"):
            op = "below" if least and x.data == NEAR else "inside"
            x = self._one(op, INT, (x, self.index(size)))
        return self.named(x, size)

    def _row_and_column(self, x: Scalar, size: Expression) -> tuple[Scalar, Scalar, Expression] | None:
        """Return (row, column, width) of an index row * width + column into an axis of rows of this width, so that
        no division must separate them. None for other indices.
        """
        for product, column in (x.args, x.args[::-1]) if x.op == "add" else ():
            for row, width in (product.args, product.args[::-1]) if product.op == "mul" else ():
                if (
                    width.op == "index"
                    and (size // width.data) * width.data == size
                    and self._not_negative(column)
                ):
                    return row, column, width.data
        return None

    def named(self, x: Scalar, size: Expression) -> Expression:
        """Return the symbol of a scalar that is an index from 0 to size - 1."""
        if x.op == "index":
            return x.data
        if x not in self._symbols:
            name = f"@{len(self.data)}"
            self.data[name] = x
            self.space.extents[name] = size
            self._symbols[x] = symbol(name)
        return self._symbols[x]


def divisions(statements: Sequence[Statement], scalars: Scalars) -> int:
    """Return the number of integer divisions in the scalars of statements."""
    return sum(len({a for a in atoms_of(e) if a.function == "//"}) for e in _expressions(statements, scalars))


def divisors(statements: Sequence[Statement], scalars: Scalars, name: str) -> list[Expression]:
    """Return the expressions by which statements divide a loop variable, the largest first."""
    dividing = {
        a.arguments[1]: None
        for e in _expressions(statements, scalars)
        for a in atoms_of(e)
        if a.function == "//" and a.arguments[0] == symbol(name)
    }
    return sorted(dividing, key=lambda e: e.constant or MAX_VALUES, reverse=True)


def changes(statements: Sequence[Statement], scalars: Scalars, name: str, extent: int) -> list[int]:
    """Return the values of a loop variable at which the result of a comparison with a constant changes."""
    values = set()
    (term,) = symbol(name).terms
    for x in used_scalars(statements, scalars.data):
        if x.op in ("lt", "ge", "le", "gt") and all(a.op == "index" for a in x.args):
            difference = x.args[0].data - x.args[1].data
            factor = difference.terms.get(term, 0)
            rest = (difference - constant(factor) * symbol(name)).constant
            if factor and rest is not None:
                rest -= x.op in ("le", "gt")  # factor * variable + rest < 0 changes
                values.add(-(rest // factor) if factor > 0 else rest // -factor + 1)
    return sorted(v for v in values if 0 < v < extent)


def loops_by_condition(statements: Sequence[Statement], scalars: Scalars) -> list[Statement]:
    """Return loops in which an innermost loop that stores one of two numbers, by a condition that does not change
    in the loop, is a loop for each of the two. Compilers then use vector instructions.
    """
    rest: list[Statement] = []
    for loop in statements:
        if not isinstance(loop, Loop):
            rest.append(loop)
            continue
        store = loop.body[0] if len(loop.body) == 1 and not loop.parallel else None
        if isinstance(store, Store) and store.value.op == "where":
            condition, *values = store.value.args
            if not (read_by([condition], scalars) & {loop.var, store.buffer}):
                for test, value in zip((condition, scalars.truth("not", condition)), values):
                    one = Loop(loop.var, loop.extent, [Store(store.buffer, store.offset, value, store.how)])
                    rest.append(If(test, [one]))
                continue
        rest.append(Loop(loop.var, loop.extent, loops_by_condition(loop.body, scalars), loop.parallel, loop.more))
    return rest


def read_by(results: Iterable[Scalar], scalars: Scalars) -> set[Any]:
    """Return the buffers, and the names of variables and locals, from which scalars are computed."""
    used = with_operands(results, scalars.data)
    read = {x.data[0] if x.op == "load" else x.data.name for x in used if x.op in ("load", "local")}
    return read.union(*(x.symbols for x in used))


def _expressions(statements: Sequence[Statement], scalars: Scalars) -> list[Expression]:
    """Return the different index expressions that statements compute."""
    inner = [x.expression for x in used_scalars(statements, scalars.data)]
    return [*dict.fromkeys([*(s.offset for s in stores_of(statements)), *(e for e in inner if e is not None)])]
