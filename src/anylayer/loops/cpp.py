"""Print loops as a C++ function (C++11, no other library)."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from anylayer.graph.expressions import Expression, constant
from anylayer.loops.arithmetic import Arithmetic
from anylayer.loops.ir import Argument, Buffer, Comment, If, Let, Loop, Program, Scalar, Set, Store
from anylayer.loops.parameters import Param
from anylayer.loops.schedule import scheduled
from anylayer.network import Array

INDENT = "    "
_INLINE = 1024
"""The most elements of a table that stands in the function; a larger one is a parameter."""
_PER_LINE = 8
_SHARED = 4096
"""The number of rounds from which on a loop is worth sharing between threads."""

TYPES = {
    "float32": "float",
    "float64": "double",
    "bool": "bool",
    **{f"{u}int{n}": f"{u}int{n}_t" for u in ("", "u") for n in (8, 16, 32, 64)},
}
"""The C++ type of each dtype."""

PRELUDE = """\
#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdint>
#include <limits>
#include <memory>
#include <type_traits>

namespace {

// Runs the rounds of a loop on one thread. A caller may give an object of its own that shares them between
// threads. `work` is the number of elements that all rounds compute together, about.
struct Sequential {
    template <class Body>
    void operator()(int64_t count, int64_t /* work */, const Body& body) const { body(int64_t(0), count); }
};

// The maximum and the minimum, as NumPy defines them: NaN if one of the numbers is NaN.
template <class T> inline T maximum(T a, T b) { return a > b || a != a ? a : b; }
template <class T> inline T minimum(T a, T b) { return a < b || a != a ? a : b; }
template <class T> inline T sign(T x) { return x > T(0) ? T(1) : x < T(0) ? T(-1) : x; }
template <class T> inline T quotient(T a, T b) { return b == T(0) ? T(0) : T(a / b); }
inline int64_t floor_quotient(int64_t a, int64_t b) { return a / b - (a % b != 0 && (a % b < 0) != (b < 0)); }
template <class T> inline T modulo(T a, T b, std::true_type) {
    return b == T(0) ? T(0) : T(a % b != T(0) && (a % b < T(0)) != (b < T(0)) ? a % b + b : a % b);
}
template <class T> inline T modulo(T a, T b, std::false_type) {
    const T r = std::fmod(a, b);
    return r != T(0) && (r < T(0)) != (b < T(0)) ? r + b : r;
}
template <class T> inline T modulo(T a, T b) { return modulo(a, b, std::is_integral<T>()); }

// An index inside an axis; a negative one counts from the end. `valid` becomes false for one outside.
template <class Flag> inline int64_t inside(int64_t i, int64_t size, Flag& valid) {
    if (i < 0) i += size;
    if (i >= 0 && i < size) return i;
    valid = false;
    return 0;
}

}  // namespace
"""
"""What the functions need: includes and helpers. It stands once in a file, before the first function."""


@dataclass(slots=True)
class Code:
    """A C++ function.

    Its parameters are, in this order: a pointer to each of `inputs` (const) and `outputs`, a pointer to each of
    `tables` (const), to the blobs of the numbers `blobs`, the `sizes` (int64_t), the `params` (double), and an
    object that runs parallel loops. It returns false where an index that is read from data lies outside its axis;
    the outputs are then incomplete.

    `conditions` are (C++ expression of the sizes, text) that must hold, or the function must not be called.
    `arithmetic` prints shapes of the arguments.
    """

    name: str
    text: str
    inputs: list[Argument]
    outputs: list[Argument]
    tables: list[tuple[str, Array]]
    sizes: dict[str, str]
    conditions: list[tuple[str, str]]
    arithmetic: Arithmetic
    blobs: list[int] = field(default_factory=list)
    params: list[Param] = field(default_factory=list)

    def size(self, e: Expression) -> str:
        """Return a size of an argument as a C++ expression of the sizes."""
        return self.arithmetic.text(e)


def to_cpp(program: Program, name: str, describe: Callable[[str], str] | None = None) -> Code:
    """Return the function of a program.

    name: an identifier. describe: a function that returns the comment for a source line ("layers.py:12"), one line
    of printable characters; there are no comments without it.
    """
    if not (name.isidentifier() and name.isascii()):
        raise ValueError(f"not an identifier: {name!a}")
    return _Printer(program, describe).code(name)


def number(value: Any, dtype: np.dtype[Any]) -> str:
    """Return a number as a C++ literal."""
    if dtype.kind == "b":
        return "true" if value else "false"
    if dtype.kind in "iu":
        return f"({value})" if value < 0 else str(value)
    kind, x = TYPES[dtype.name], dtype.type(value)
    if math.isnan(x):
        return f"std::numeric_limits<{kind}>::quiet_NaN()"
    if math.isinf(x):
        return f"{'-' if x < 0 else ''}std::numeric_limits<{kind}>::infinity()"
    text = (
        np.format_float_positional(x, trim="-")
        if 1e-4 <= abs(x) < 1e7
        else repr(x.item() if kind == "double" else x)
    )
    text = np.format_float_scientific(x, trim="-") if not 1e-4 <= abs(x) < 1e7 and x != 0 else text
    text = "0" if x == 0 else text
    text = text if any(c in text for c in ".e") else f"{text}.0"
    text = f"-{text}" if x == 0 and math.copysign(1, x) < 0 else text
    return (f"({text}{{}})" if text.startswith("-") else text + "{}").format("f" if kind == "float" else "")


_INFIX = {
    "mul": ("*", 5), "add": ("+", 4), "sub": ("-", 4), "lt": ("<", 3), "le": ("<=", 3), "gt": (">", 3),
    "ge": (">=", 3), "eq": ("==", 3), "ne": ("!=", 3), "and": ("&&", 2), "or": ("||", 1),
}  # fmt: skip
_WORDS = {"xor": "!=", "bitand": "&", "bitor": "|", "bitxor": "^"}
_FUNCTIONS = {"round": "std::nearbyint", "max": "maximum", "min": "minimum", "sign": "sign", "mod": "modulo"}
_COMBINED = {"add": "+=", "mul": "*=", "": "="}
_ATOM, _UNARY = 9, 6
_VARIABLES = "ijklmnpqrsuvwxyz"
"""Names of loop variables. Sizes have capital letters, and other names more than one."""


class _Printer:
    """`names` are the scalars that have a name where the next line stands; `lines` are those written so far."""

    def __init__(self, program: Program, describe: Callable[[str], str] | None) -> None:
        self.program = program
        self.describe = describe
        self.sizes = {s: _identifier(s, i) for i, s in enumerate(program.sizes)}
        self.arithmetic = Arithmetic(program, dict(self.sizes))
        self.names: dict[Scalar, str] = {}
        self.lines: list[str] = []
        self.depth = 1
        self.level = 0
        self.parallel = False

    def code(self, name: str) -> Code:
        tables = [b for b in self.program.buffers if b.kind == "table"]
        large = [b for b in tables if b.data is not None and b.data.size > _INLINE]
        for b in tables:
            if b not in large:
                self.table(b)
        for b in self.program.buffers:
            if b.kind == "temporary":
                self.temporary(b)
        self.statements(scheduled(self.program))
        head = ", ".join([*self.pointers(self.program.inputs, "const "), *self.pointers(self.program.outputs, "")])
        more = [f"const {TYPES[b.dtype.name]}* {b.name}" for b in large]
        blobs = [b for b in self.program.buffers if b.kind == "blob"]
        more += [f"const {TYPES[b.dtype.name]}* {b.name}" for b in blobs]
        more += [f"int64_t {s}" for s in self.sizes.values()]
        more += [f"double {param}" for param, _ in self.program.params]
        used = "parallel" if self.parallel else "/* parallel */"
        parameters = ", ".join([head, *more, f"const Parallel& {used}"])
        flag = [f"{INDENT}std::atomic<bool> valid(true);"] if self.program.checks else []
        last = f"{INDENT}return {'valid' if self.program.checks else 'true'};"
        lines = [
            "template <class Parallel>",
            f"static bool {name}({parameters}) {{",
            *flag,
            *self.lines,
            last,
            "}",
        ]
        return Code(
            name,
            "\n".join(lines) + "\n",
            self.program.inputs,
            self.program.outputs,
            [(b.name, b.data) for b in large if b.data is not None],
            self.sizes,
            [(self.arithmetic.condition(g), str(g)) for g in self.program.conditions],
            self.arithmetic,
            [int(b.name.removeprefix("blob")) for b in blobs],
            [param for _, param in self.program.params],
        )

    def pointers(self, arguments: Sequence[Argument], const: str) -> list[str]:
        return [f"{const}{TYPES[a.dtype.name]}* {a.name}" for a in arguments]

    def line(self, text: str) -> None:
        self.lines.append(INDENT * self.depth + text)

    def table(self, b: Buffer) -> None:
        """Write a small constant array."""
        if b.data is None:
            return
        values = [number(v, b.dtype).strip("()") for v in b.data.reshape(-1).tolist()]
        rows = [", ".join(values[i : i + _PER_LINE]) for i in range(0, len(values), _PER_LINE)]
        self.line(f"static const {TYPES[b.dtype.name]} {b.name}[{len(values)}] = {{")
        for row in rows:
            self.line(f"{INDENT}{row},")
        self.line("};")

    def temporary(self, b: Buffer) -> None:
        kind, count = TYPES[b.dtype.name], self.arithmetic.text(b.count)
        self.line(f"const std::unique_ptr<{kind}[]> {b.name}(new {kind}[{count}]);")

    def statements(self, body: Sequence[Any]) -> None:
        before = dict(self.names)
        for s in body:
            if isinstance(s, Comment):
                if self.describe is not None:
                    text = self.describe(s.text)
                    if not text.isprintable() or "\\" in text:
                        raise ValueError(f"not a comment of one line: {text!a}")
                    self.line(f"// {text}")
            else:
                self.statement(s)
        self.names = before if self.depth > 1 else self.names

    def statement(self, s: Any) -> None:
        if isinstance(s, Let):
            self.line(f"const {TYPES[s.value.dtype.name]} {s.name} = {self.scalar(s.value)};")
            self.names[s.value] = s.name
            self.arithmetic.bind(s.value, s.name)
        elif isinstance(s, Store):
            target = f"{s.buffer.name}[{self.arithmetic.text(s.offset)}]"
            self.assign(target, s.value, s.how)
        elif isinstance(s, Set) and s.how == "=":
            self.line(f"{TYPES[s.local.dtype.name]} {s.local.name} = {self.scalar(s.value)};")
        elif isinstance(s, Set):
            self.assign(s.local.name, s.value, s.how)
        elif isinstance(s, If):
            self.block(f"if ({self.scalar(s.condition)})", s.body)
        elif isinstance(s, Loop):
            self.loop(s)

    def assign(self, target: str, value: Scalar, how: str) -> None:
        text = self.scalar(value)
        if how in _COMBINED:
            self.line(f"{target} {_COMBINED[how]} {text};")
        else:
            self.line(f"{target} = {_FUNCTIONS[how]}({target}, {text});")

    def block(self, head: str, body: Sequence[Any], before: Sequence[str] = (), variables: int = 0) -> None:
        self.line(f"{head} {{")
        self.depth += 1
        self.level += variables
        for text in before:
            self.line(text)
        self.statements(body)
        self.level -= variables
        self.depth -= 1
        self.line("}")

    def loop(self, s: Loop) -> None:
        names = [self.variable(i) for i in range(len(s.variables))]
        self.arithmetic.names.update(zip(s.variables, names))
        extents = [s.extent, *(e for _, e in s.more)]
        total, rounds = extents[0], names[0] if len(names) == 1 else "round"
        for e in extents[1:]:
            total = total * e
        work = total * rounds_inside(s.body)
        small = work.constant is not None and work.constant < _SHARED and len(names) == 1
        if small or not s.parallel:
            text = self.arithmetic.text(s.extent)
            self.block(f"for (int64_t {names[0]} = 0; {names[0]} < {text}; ++{names[0]})", s.body, variables=1)
            return
        self.parallel = True
        counts = f"{self.arithmetic.text(total)}, {self.arithmetic.text(work)}"
        self.line(f"parallel({counts}, [&](int64_t begin, int64_t end) {{")
        self.depth += 1
        self.block(
            f"for (int64_t {rounds} = begin; {rounds} < end; ++{rounds})",
            s.body,
            _split(names, extents, self),
            len(names),
        )
        self.depth -= 1
        self.line("});")

    def variable(self, more: int) -> str:
        """Return a name for a loop variable: i, j, k and so on, from the outermost loop to the inner ones."""
        at = self.level + more
        return _VARIABLES[at] if at < len(_VARIABLES) else f"i{at}"

    # ----------------------------------------------------------------- scalars

    def scalar(self, x: Scalar) -> str:
        return self.text(x)[0]

    def text(self, x: Scalar) -> tuple[str, int]:
        """Return a scalar as text, and how strongly its outermost operation binds."""
        name = self.names.get(x)
        if name is not None:
            return name, _ATOM
        if x.op == "const":
            return number(x.data, x.dtype), _ATOM
        if x.op == "index":
            text = self.arithmetic.text(x.data)
            return (text, _ATOM) if text.isalnum() else (text, 4)
        if x.op in ("local", "argument"):
            return x.data.name, _ATOM
        if x.op == "load":
            return f"{x.data[0].name}[{self.arithmetic.text(x.data[1])}]", _ATOM
        return self.call(x)

    def call(self, x: Scalar) -> tuple[str, int]:
        kind = TYPES[x.dtype.name]
        if x.op in _INFIX or x.op in _WORDS:
            sign, binds = _INFIX.get(x.op) or (_WORDS[x.op], 0)
            left, right = (self.inside(a, binds, i) for i, a in enumerate(x.args))
            text = f"{left} {sign} {right}"
            small = x.dtype.kind in "iu" and x.dtype.itemsize < 4
            return (f"{kind}({text})", _ATOM) if small else (text, binds)
        if x.op == "div" and x.dtype.kind == "f":
            return f"{self.inside(x.args[0], 5, 0)} / {self.inside(x.args[1], 5, 1)}", 5
        if x.op in ("neg", "not", "bitnot"):
            sign = {"neg": "-", "not": "!", "bitnot": "~"}[x.op]
            text = f"{sign}{self.inside(x.args[0], _UNARY, 1)}"
            return (f"{kind}({text})", _ATOM) if x.dtype.kind in "iu" else (text, _UNARY)
        if x.op == "where":
            c, a, b = (self.inside(a, 1, 1) for a in x.args)
            return f"{c} ? {a} : {b}", 0
        arguments = ", ".join(map(self.scalar, x.args))
        if x.op == "cast":
            return self.cast(x, kind, arguments), _ATOM
        if x.op == "inside":
            return f"inside({arguments}, valid)", _ATOM
        if x.op == "div":
            return f"quotient<{kind}>({arguments})", _ATOM
        if x.op in ("floor", "ceil", "round") and x.dtype.kind != "f":
            return self.text(x.args[0])
        function = _FUNCTIONS.get(x.op, f"std::{x.op}")
        typed = f"<{kind}>" if x.op in ("max", "min", "sign", "mod") else ""
        return f"{function}{typed}({arguments})", _ATOM

    def cast(self, x: Scalar, kind: str, argument: str) -> str:
        """Return a conversion. Floats become small integers by way of int64_t, which wraps around."""
        wraps = x.args[0].dtype.kind == "f" and x.dtype.kind in "iu" and x.dtype.itemsize < 8
        return f"{kind}(int64_t({argument}))" if wraps else f"{kind}({argument})"

    def inside(self, x: Scalar, binds: int, at: int) -> str:
        text, own = self.text(x)
        return f"({text})" if own < binds or (own == binds and at) or (binds <= 2 and own < _ATOM) else text


def rounds_inside(body: Sequence[Any]) -> Expression:
    """Return the number of rounds of the loops in a body, one inside the other; of several, those of the last."""
    found = constant(1)
    for s in body:
        if isinstance(s, Loop):
            found = s.extent * rounds_inside(s.body)
    return found


def _split(names: Sequence[str], extents: Sequence[Expression], printer: _Printer) -> list[str]:
    """Return definitions of the variables of loops that share their rounds."""
    found, rest = [], "round"
    for at in reversed(range(1, len(names))):
        size = printer.arithmetic.enclosed(extents[at])
        found.append(f"const int64_t {names[at]} = {rest} % {size};")
        rest = f"{rest} / {size}"
    return [*found, f"const int64_t {names[0]} = {rest};"] if found else []


def _identifier(symbol: str, at: int) -> str:
    """Return the parameter that holds an open size."""
    return symbol if symbol.isascii() and symbol.isidentifier() and symbol[0].isupper() else f"S{at}"


def table_text(name: str, dtype: np.dtype[Any], array: Array) -> str:
    """Return a constant array as a C++ definition."""
    values = [number(v, dtype).strip("()") for v in np.asarray(array).reshape(-1).tolist()]
    rows = [", ".join(values[i : i + _PER_LINE]) for i in range(0, len(values), _PER_LINE)]
    body = "".join(f"{INDENT}{row},\n" for row in rows)
    return f"static const {TYPES[dtype.name]} {name}[{len(values)}] = {{\n{body}}};\n"


__all__ = ["PRELUDE", "TYPES", "Code", "Mapping", "number", "table_text", "to_cpp"]
