"""The base class of the printers of loops: statements, and scalars as expressions with C syntax."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar

import numpy as np

from anylayer.graph.expressions import Expression, constant
from anylayer.loops.arithmetic import Arithmetic
from anylayer.loops.ir import Buffer, Comment, If, Let, Loop, LoopProgram, Return, Scalar, Set, Sort, Store

INDENT = "    "
_PER_LINE = 8
"""The number of elements of a table per line."""

INFIX = {
    "mul": ("*", 5), "add": ("+", 4), "sub": ("-", 4), "lt": ("<", 3), "le": ("<=", 3), "gt": (">", 3),
    "ge": (">=", 3), "eq": ("==", 3), "ne": ("!=", 3), "and": ("&&", 2), "or": ("||", 1),
}  # fmt: skip
_WORDS = {"xor": "!=", "bitand": "&", "bitor": "|", "bitxor": "^"}
_COMBINED = {"add": "+=", "mul": "*=", "": "="}
ATOM, _UNARY = 9, 6
"""The precedence of a name or a call, and of a sign."""
_VARIABLES = "ijklmnpqrsuvwxyz"
"""Names of loop variables. Sizes have capital letters, and other names more than one."""


class Printer(ABC):
    """The text of a function under construction.

    `names` maps the scalars that are variables in the current scope to their names. `lines` are the lines so far.
    A subclass for a language defines the class attributes, of which `types` maps dtypes to type names, and the
    abstract methods.
    """

    types: ClassVar[Mapping[str, str]]
    index: ClassVar[str]
    """The type of loop variables."""
    table_prefix: ClassVar[str]
    """The words before the type of a constant array."""
    conversion: ClassVar[str]
    """A conversion to a type, the first "{}", of an expression, the second one."""
    infix: ClassVar[Mapping[str, tuple[str, int]]] = INFIX
    """Operation -> its sign, and how strongly the sign binds."""

    def __init__(
        self, program: LoopProgram, describe: Callable[[str], str] | None, arithmetic: Arithmetic
    ) -> None:
        self.program = program
        self.describe = describe
        self.arithmetic = arithmetic
        self.names: dict[Scalar, str] = {}
        self.lines: list[str] = []
        self.depth = 1
        self.level = 0

    @abstractmethod
    def number(self, value: Any, dtype: np.dtype[Any]) -> str:
        """Return the literal of a number in the language."""

    @abstractmethod
    def function(self, x: Scalar, arguments: str) -> str:
        """Return an expression that applies the function of the scalar `x`, such as exp, to arguments."""

    @abstractmethod
    def loop(self, s: Loop) -> None:
        """Write a loop."""

    def place(self, buffer: Buffer, offset: Expression) -> str:
        """Return the expression of the element at an offset of a buffer, which can be read or assigned to."""
        return f"{buffer.name}[{self.arithmetic.text(offset)}]"

    def loaded(self, buffer: Buffer, offset: Expression) -> str:
        """Return an expression that reads the element at an offset of a buffer, in the buffer's dtype."""
        return self.place(buffer, offset)

    def stored(self, buffer: Buffer, value: str) -> str:
        """Return an expression that converts `value` to the type in which the buffer stores its elements."""
        return value

    def converted(self, kind: str, argument: str) -> str:
        """Return an expression that converts `argument` to the type `kind` of the language."""
        return self.conversion.format(kind, argument)

    def declared(self, x: Scalar) -> str:
        """Return the type of the variable that holds a scalar."""
        return self.types[x.dtype.name]

    def index_value(self, e: Expression) -> str:
        """Return an index expression as an expression of type int64."""
        return self.arithmetic.text(e)

    def line(self, text: str) -> None:
        self.lines.append(INDENT * self.depth + text)

    def tables(self) -> list[Buffer]:
        """Return the buffers that hold constant arrays."""
        return [b for b in self.program.buffers if b.kind == "table"]

    def table(self, b: Buffer) -> None:
        """Write the definition of a constant array."""
        if b.data is None:
            return
        values = [self.number(v, b.dtype) for v in b.data.reshape(-1).tolist()]
        for line in table_lines(f"{self.table_prefix} {self.types[b.dtype.name]} {b.name}", values):
            self.line(line)

    def statements(self, body: Sequence[Any]) -> None:
        before = dict(self.names)
        for s in body:
            self.statement(s)
        self.names = before if self.depth > 1 else self.names

    def comment(self, s: Comment) -> None:
        if self.describe is not None:
            text = self.describe(s.text)
            if not text.isprintable() or "\\" in text:
                raise ValueError(f"not a comment of one line: {text!a}")
            self.line(f"// {text}")

    def statement(self, s: Any) -> None:
        if isinstance(s, Let):
            self.line(f"const {self.declared(s.value)} {s.name} = {self.scalar(s.value)};")
            self.names[s.value] = s.name
            self.arithmetic.bind(s.value, s.name)
        elif isinstance(s, Set) and s.how == "=":
            self.line(f"{self.types[s.local.dtype.name]} {s.local.name} = {self.scalar(s.value)};")
        elif isinstance(s, Set):
            self.assign(s.local.name, s.value, s.how, self.scalar(s.value))
        elif isinstance(s, Return):
            self.line(f"return {self.scalar(s.value)};")
        elif isinstance(s, If):
            self.block(f"if ({self.scalar(s.condition)})", s.body)
        else:  # only C++ programs contain Repeat, Sort and Suppress
            getattr(self, type(s).__name__.lower())(s)

    def store(self, s: Store) -> None:
        target = self.place(s.buffer, s.offset)
        self.assign(target, s.value, s.how, self.stored(s.buffer, self.scalar(s.value)))

    def assign(self, target: str, value: Scalar, how: str, text: str) -> None:
        if how in _COMBINED:
            self.line(f"{target} {_COMBINED[how]} {text};")
        else:
            self.line(f"{target} = {self.function(Scalar(how, value.dtype), f'{target}, {text}')};")

    def block(
        self, head: str, body: Sequence[Any], before: Sequence[str] = (), variables: int = 0, end: str = "}"
    ) -> None:
        self.line(f"{head} {{".lstrip())
        self.depth += 1
        self.level += variables
        for text in before:
            self.line(text)
        self.statements(body)
        self.level -= variables
        self.depth -= 1
        if end:
            self.line(end)

    def loop_names(self, symbols: Sequence[str]) -> list[str]:
        """Return names for the variables of loops: i, j, k and so on, from the outermost to the inner ones."""
        places = range(self.level, self.level + len(symbols))
        names = [_VARIABLES[at] if at < len(_VARIABLES) else f"i{at}" for at in places]
        self.arithmetic.names.update(zip(symbols, names))
        return names

    # ----------------------------------------------------------------- scalars

    def scalar(self, x: Scalar) -> str:
        return self.text(x)[0]

    def text(self, x: Scalar) -> tuple[str, int]:
        """Return the expression of a scalar, and the precedence of its outermost operation."""
        name = self.names.get(x)
        if name is not None:
            return name, ATOM
        if x.op == "const":
            return self.number(x.data, x.dtype), ATOM
        if x.op == "index":
            text = self.index_value(x.data)
            return (text, ATOM) if text.isalnum() else (text, 4)
        if x.op in ("local", "argument"):
            return x.data.name, ATOM
        if x.op == "load":
            return self.loaded(*x.data), ATOM
        return self.call(x)

    def call(self, x: Scalar) -> tuple[str, int]:
        kind = self.declared(x)
        if x.op in self.infix or x.op in _WORDS:
            sign, binds = self.infix.get(x.op) or (_WORDS[x.op], 0)
            left, right = (self.operand(x, binds, i) for i in range(2))
            text = f"{left} {sign} {right}"
            small = x.dtype.kind in "iu" and x.dtype.itemsize < 4
            return (self.converted(kind, text), ATOM) if small else (text, binds)
        if x.op == "div" and x.dtype.kind == "f":
            return f"{self.inside(x.args[0], 5, 0)} / {self.inside(x.args[1], 5, 1)}", 5
        if x.op in ("neg", "not", "bitnot"):
            sign = {"neg": "-", "not": "!", "bitnot": "~"}[x.op]
            text = f"{sign}{self.inside(x.args[0], _UNARY, 1)}"
            return (self.converted(kind, text), ATOM) if x.dtype.kind in "iu" else (text, _UNARY)
        if x.op == "where":
            c, a, b = (self.inside(a, 1, 1) for a in x.args)
            return f"{c} ? {a} : {b}", 0
        arguments = ", ".join(map(self.scalar, x.args))
        if x.op == "cast":
            return self.cast(x, kind, arguments), ATOM
        if x.op in ("floor", "ceil", "round") and x.dtype.kind != "f":
            return self.text(x.args[0])
        return self.function(x, arguments), ATOM

    def cast(self, x: Scalar, kind: str, argument: str) -> str:
        """Return a conversion of `argument` to a type: floats to small integers through int64, which wraps."""
        wraps = x.args[0].dtype.kind == "f" and x.dtype.kind in "iu" and x.dtype.itemsize < 8
        inner = self.converted(self.types["int64"], argument) if wraps else argument
        return self.converted(kind, inner)

    def operand(self, x: Scalar, binds: int, at: int) -> str:
        """Return the expression of an operand of a scalar that is computed by an infix operator."""
        return self.inside(x.args[at], binds, at)

    def inside(self, x: Scalar, binds: int, at: int) -> str:
        text, strength = self.text(x)
        if strength < binds or (strength == binds and at) or (binds <= 2 and strength < ATOM):
            return f"({text})"
        return text


def rounds_inside(body: Sequence[Any]) -> Expression:
    """Return how often the innermost statements of a body run at most: the sum over its loops; 1 without any."""
    total = constant(0)
    for s in body:
        if isinstance(s, (If, Loop)):
            total = total + rounds_inside(s.body) * (s.extent if isinstance(s, Loop) else constant(1))
        elif isinstance(s, Sort):
            total = total + s.size
    return total if total.terms else constant(1)


def split_rounds(
    names: Sequence[str],
    extents: Sequence[Expression],
    printer: Printer,
    rest: str = "round",
    const: str = "const ",
) -> list[str]:
    """Return lines that compute the variables of collapsed loops from the number `rest` of the iteration."""
    lines = []
    for at in reversed(range(1, len(names))):
        size = printer.arithmetic.enclosed(extents[at])
        lines.append(f"{const}{printer.index} {names[at]} = {rest} % {size};")
        rest = f"{rest} / {size}"
    return [*lines, f"{const}{printer.index} {names[0]} = {rest};"] if lines else []


def table_lines(head: str, numbers: Sequence[str]) -> list[str]:
    """Return the definition of a constant array; negative numbers are in parentheses, which it omits."""
    values = [number[1:-1] if number.startswith("(") else number for number in numbers]
    rows = [", ".join(values[i : i + _PER_LINE]) for i in range(0, len(values), _PER_LINE)]
    return [f"{head}[{len(values)}] = {{", *(f"{INDENT}{row}," for row in rows), "};"]


def identifier(symbol: str, at: int) -> str:
    """Return the name of the parameter that holds an open size."""
    return symbol if symbol.isascii() and symbol.isidentifier() and symbol[0].isupper() else f"S{at}"
