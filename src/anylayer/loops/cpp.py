"""Print loops as a C++ function (C++11, no other library)."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from typing import Any, ClassVar

import numpy as np

from anylayer.folders import template
from anylayer.graph.expressions import Expression, constant, symbol
from anylayer.loops.arithmetic import Arithmetic
from anylayer.loops.ir import (
    Argument,
    Buffer,
    Comment,
    Let,
    Loop,
    LoopProgram,
    Repeat,
    Return,
    Scalar,
    Set,
    Sort,
    Store,
    Suppress,
    product,
    substituted,
    used_scalars,
)
from anylayer.loops.parameters import ParamNumber
from anylayer.loops.printer import (
    ATOM,
    INDENT,
    INFIX,
    Printer,
    identifier,
    rounds_inside,
    split_rounds,
    table_lines,
)
from anylayer.loops.schedule import scheduled
from anylayer.network import Array

_INLINE = 1024
"""The largest number of elements of a table in the function; a larger one is a parameter."""
_ON_STACK = 16
"""The largest number of elements of a temporary array on the stack, which compilers may hold in registers."""
_SHARED = 4096
"""The smallest number of iterations for which a loop is divided among threads."""

TYPES = {
    "float32": "float",
    "float64": "double",
    "bool": "bool",
    **{f"{u}int{n}": f"{u}int{n}_t" for u in ("", "u") for n in (8, 16, 32, 64)},
}
"""The C++ type of each dtype."""


@dataclass(slots=True)
class CppFunction:
    """A C++ function.

    Its parameters are, in this order: pointers to the `inputs` (const) and `outputs`, to the `tables` (const), and
    to the blobs with the indices `blobs`; the `sizes` (int64_t); the `params` (double); and an object that runs
    parallel loops. The outputs must not overlap the inputs. It returns false where an index that is read from data
    lies outside its axis; the outputs are then incomplete.

    `conditions` are (C++ expression of the sizes, text) that must hold, or the function must not be called.
    `arithmetic` prints shapes of the arguments. `counts` are the symbols of the sizes in the last output.
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
    params: list[ParamNumber] = field(default_factory=list)
    counts: list[str] = field(default_factory=list)

    def size(self, e: Expression) -> str:
        """Return a size of an input or output as a C++ expression of the function's size variables."""
        return self.arithmetic.text(e)


def to_cpp(program: LoopProgram, name: str, describe: Callable[[str], str] | None = None) -> CppFunction:
    """Return the function of a program.

    name: an identifier. describe: a function that returns the comment for a source line ("layers.py:12"), one line
    of printable characters; there are no comments without it.
    """
    if not (name.isidentifier() and name.isascii()):
        raise ValueError(f"not an identifier: {name!a}")
    return _Printer(program, describe).code(name)


def arguments_text(code: CppFunction) -> list[str]:
    """Return the arguments of a call whose pointers are in the list `p` (the inputs, the outputs and the tables),
    and whose sizes are in the list `n`. The object that runs parallel loops is missing."""
    kinds = [f"const {TYPES[a.dtype.name]}" for a in code.inputs]
    kinds += [TYPES[a.dtype.name] for a in code.outputs]
    kinds += [f"const {TYPES[table.dtype.name]}" for _, table in code.tables]
    pointers = [f"static_cast<{kind}*>(p[{i}])" for i, kind in enumerate(kinds)]
    return [*pointers, *(f"n[{i}]" for i in range(len(code.sizes)))]


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
    short = x == 0 or 1e-4 <= abs(x) < 1e7
    text = (np.format_float_positional if short else np.format_float_scientific)(x, trim="-")
    text = text if any(c in text for c in ".e") else f"{text}.0"
    return (f"({text}{{}})" if text.startswith("-") else text + "{}").format("f" if kind == "float" else "")


_VECTORS = {
    "exp": "exponential", "log": "logarithm", "tanh": "hyperbolic_tangent", "erf": "error_function", "sin": "sine",
    "cos": "cosine", "pow": "power",
}  # fmt: skip
"""Functions of float32 that compilers turn into vector instructions."""
_COMBINED = {"add": "Sum", "mul": "Product", "max": "Largest", "min": "Smallest"}
_PLACES = {"ArgMax": "FirstLargest", "ArgMin": "FirstSmallest"}
_PARTS = 16
"""The number of partial results of a loop that combines numbers: see `combined` of the prelude."""
_FUNCTIONS = {"round": "std::nearbyint", "max": "maximum", "min": "minimum", "sign": "sign", "mod": "modulo"}
_VECTOR = 64
"""The number of bytes of the longest vector instructions."""
_SMALL_POWER = 2.5
"""The largest absolute value of a constant exponent for which powers are computed without doubles."""
_BOUNDS = {"max": "at_least", "min": "at_most"}
"""Functions of a number and a bound that is not NaN."""


_FORMS = {
    "min": "smaller({}, {})", "max": "larger({}, {})", "//": "floor_quotient({}, {})",
    "double": "double({})", "integer": "int64_t({})", "call": "std::{}({})", "argument": "{}", "symbol": "{}",
}  # fmt: skip
"""How C++ spells index expressions: see Arithmetic."""


class _Printer(Printer):
    types, index, table_prefix, conversion = TYPES, "int64_t", "static const", "{}({})"
    infix: ClassVar[Mapping[str, tuple[str, int]]] = {**INFIX, "and": ("&", 2), "or": ("|", 1)}
    """INFIX with signs that compute both operands, because compilers make no vector instructions of branches."""

    def __init__(self, program: LoopProgram, describe: Callable[[str], str] | None) -> None:
        self.sizes = {s: identifier(s, i) for i, s in enumerate(program.sizes)}
        names = {**self.sizes, **{symbol: local.name for symbol, (local, _) in program.counts.items()}}
        super().__init__(program, describe, Arithmetic(program, names, _FORMS))

    def number(self, value: Any, dtype: np.dtype[Any]) -> str:
        return number(value, dtype)

    def call(self, x: Scalar) -> tuple[str, int]:
        if x.op == "div" and len(x.args) > 2:
            return f"divided({', '.join(map(self.scalar, x.args))})", ATOM
        return super().call(x)

    def function(self, x: Scalar, arguments: str) -> str:
        kind = TYPES[x.dtype.name]
        if x.op == "inside":
            return f"inside({arguments}, outside)"
        if x.op == "div":
            return f"quotient<{kind}>({arguments})"
        if x.op in _BOUNDS and any(map(_is_bound, x.args)):
            number, bound = x.args if _is_bound(x.args[1]) else x.args[::-1]
            return f"{_BOUNDS[x.op]}<{kind}>({self.scalar(number)}, {self.scalar(bound)})"
        if x.op == "pow" and kind == "float" and x.args[1].op == "const" and abs(x.args[1].data) <= _SMALL_POWER:
            return f"small_power({arguments})"
        if x.op in _VECTORS and kind == "float":
            return f"{_VECTORS[x.op]}({arguments})"
        typed = f"<{kind}>" if x.op in ("max", "min", "sign", "mod") else ""
        return f"{_FUNCTIONS.get(x.op, f'std::{x.op}')}{typed}({arguments})"

    def code(self, name: str) -> CppFunction:
        tables = self.tables()
        large = [b for b in tables if b.data is not None and b.data.size > _INLINE]
        for b in tables:
            if b not in large:
                self.table(b)
        for b in self.program.buffers:
            if b.kind == "temporary":
                self.temporary(b)
        self.statements(scheduled(self.program))
        program, blobs = self.program, [b for b in self.program.buffers if b.kind == "blob"]
        arrays: list[tuple[str, Sequence[Argument | Buffer]]]
        arrays = [("const ", program.inputs), ("", program.outputs), ("const ", [*large, *blobs])]
        parameters = [f"{const}{TYPES[a.dtype.name]}* {a.name}" for const, some in arrays for a in some]
        parameters += [f"int64_t {s}" for s in self.sizes.values()]
        parameters += [f"double {param}" for param, _ in program.params]
        words = _words("\n".join(self.lines))
        named = [_without_unused_name(words, one) for one in (*parameters, "const Parallel& parallel")]
        flag = [f"{INDENT}std::atomic<bool> valid(true);", f"{INDENT}uint64_t outside = 0;"]
        last = f"{INDENT}return {'valid && !(outside >> 63)' if program.checks else 'true'};"
        head = ["template <class Parallel>", f"static bool {name}({', '.join(named)}) {{"]
        lines = [*head, *(flag if program.checks else ()), *self.lines, last, "}"]
        return CppFunction(
            name,
            "\n".join(lines) + "\n",
            program.inputs,
            program.outputs,
            [(b.name, b.data) for b in large if b.data is not None],
            self.sizes,
            [(self.arithmetic.condition(g), str(g)) for g in program.conditions],
            self.arithmetic,
            [int(b.name.removeprefix("blob")) for b in blobs],
            [param for _, param in program.params],
            list(program.counts),
        )

    def temporary(self, b: Buffer) -> None:
        largest = {name: constant(size) for name, (_, size) in self.program.counts.items()}
        elements = substituted(b.count, largest)
        kind, count = TYPES[b.dtype.name], self.arithmetic.text(elements)
        if elements.constant is not None and 0 < elements.constant <= _ON_STACK:
            self.line(f"{kind} {b.name}_memory[{count}] = {{}};")
        else:
            self.line(f"const Memory<{kind}> {b.name}_memory({count});")
        self.line(f"{kind}* const {b.name} = &{b.name}_memory[0];")

    def loop(self, s: Loop) -> None:
        names, total = self.loop_names(s.variables), product(s.extents)
        work = total * rounds_inside(s.body)
        small = work.constant is not None and work.constant < _SHARED and len(names) == 1
        if small or not s.parallel:
            text = self.arithmetic.text(s.extent)
            if self.combines(s):
                self.combined(s, names[0], text)
                return
            head, end = f"for (int64_t {names[0]} = 0; {names[0]} < {text}; ++{names[0]})", "}"
            width = self.independent(s, sequential=True)
            if width:
                head, end = f"in_vectors<{width}>({text}, [&](int64_t {names[0]})", "});"
            self.block(head, s.body, variables=1, end=end)
            return
        counts = f"{self.arithmetic.text(total)}, {self.arithmetic.text(work)}"
        checks = self.checks(s.body)
        captures = "=, &valid" if checks else "="
        self.line(f"parallel({counts}, copied([{captures}](int64_t begin, int64_t end) {{")
        self.depth += 1
        if len(names) > 1:
            self.line("if (begin == end) return;")
            for line in split_rounds(names, s.extents, self, "begin", ""):
                self.line(line)
        if checks:
            self.line("uint64_t outside = 0;")
        if len(names) == 1:
            self.independent(s)
            self.block(f"for (int64_t {names[0]} = begin; {names[0]} < end; ++{names[0]})", s.body, variables=1)
        else:
            self.collapsed(s, names)
        if checks:
            self.line("if (outside >> 63) valid = false;")
        self.depth -= 1
        self.line("}));")

    def repeat(self, s: Repeat) -> None:
        (name,) = self.loop_names([s.var])
        test = f"{name} < {self.scalar(s.limit)}"
        test += "" if s.condition is None else f" && {self.scalar(s.condition)}"
        self.block(f"for (int64_t {name} = 0; {test}; ++{name})", s.body, variables=1)

    def independent(self, s: Loop, sequential: bool = False) -> int:
        """Write INDEPENDENT before an innermost loop whose iterations store to different elements of arrays that
        it does not read. Compilers cannot prove this for several pointers, nor for places that are read from data.

        If they would compute several iterations of a sequential loop one by one, return the number of iterations
        that one vector instruction computes, and write nothing. Return 0 otherwise.
        """
        stores = [one for one in s.body if isinstance(one, Store)]
        loads = [x for x in used_scalars(s.body, self.program.data) if x.op == "load"]
        only = all(isinstance(one, (Comment, Let, Store)) for one in s.body)
        read = {x.data[0] for x in loads}
        if not (
            only and read.isdisjoint(one.buffer for one in stores) and self.are_apart(s.variables[-1], stores)
        ):
            return 0
        sizes = [one.buffer.dtype.itemsize for one in stores] + [x.dtype.itemsize for x in loads]
        width, extent = _VECTOR // min(sizes, default=_VECTOR), s.extent.constant or 0
        assigned = not any(one.how for one in stores)
        if sequential and assigned and extent > 4 * width and extent % (width // 2) > 1:
            return width
        self.line("INDEPENDENT")
        return 0

    def are_apart(self, variable: str, stores: Sequence[Store]) -> bool:
        """Return whether no two stores, in one iteration or in two, are to the same element."""
        (term,) = symbol(variable).terms
        extent, varying = self.program.extents[variable].constant, {variable, *self.program.data}
        steps = [s.offset.terms.get(term, 0) for s in stores]
        places = [s.offset - constant(step) * symbol(variable) for s, step in zip(stores, steps)]
        if any(step < 1 or not varying.isdisjoint(place.symbols) for step, place in zip(steps, places)):
            return False
        for (a, step, place), (b, other, there) in combinations(zip(stores, steps, places), 2):
            apart = (place - there).constant
            if a.buffer is b.buffer and (
                apart is None
                or step != other
                or (apart % step == 0 and (apart == 0 or extent is None or abs(apart) < step * extent))
            ):
                return False
        return True

    def combines(self, s: Loop) -> bool:
        """Return whether a loop only finds a place, or accumulates a sum, product or extremum and is not short."""
        *before, last = s.body
        short = s.extent.constant is not None and s.extent.constant < _PARTS
        if isinstance(last, Set) and last.how in _PLACES:
            return True
        return (
            isinstance(last, Set)
            and last.how in _COMBINED
            and last.local.dtype.kind != "b"
            and all(isinstance(one, Let) for one in before)
            and not (short or self.checks(s.body))
        )

    def checks(self, body: Sequence[object]) -> bool:
        """Return whether statements check indices that they read from data."""
        return any(x.op == "inside" for x in used_scalars(body, self.program.data))

    def combined(self, s: Loop, variable: str, count: str) -> None:
        """Write a loop that adds or compares numbers as a call of the C++ function `combined` or `place_of`.

        They collect several partial results, so that compilers use vector instructions.
        """
        last = s.body[-1]
        name, kind = last.local.name, TYPES[last.value.dtype.name]
        place = _PLACES.get(last.how)
        call = f"place_of<{place}>(" if place else f"combined<{_COMBINED[last.how]}>({name}, "
        head = f"{name} = {call}{count}, [&](int64_t {variable}) -> {kind}"
        self.block(head, [*s.body[:-1], Return(last.value)], variables=1, end="});")

    def sort(self, s: Sort) -> None:
        text, order = self.arithmetic.text, "true" if s.largest else "false"
        row = f"&{self.place(s.source, s.start)}"
        results = [f"&{self.place(b, s.target)}" for b in (s.values, s.places)]
        sizes = ", ".join(map(text, (s.step, s.size, s.count)))
        self.line(f"sort_row<{order}>({row}, {', '.join(results)}, {sizes});")

    def suppress(self, s: Suppress) -> None:
        scores, boxes, rows, count = (b.name for b in s.buffers)
        least = -math.inf if s.least is None else s.least
        limits = [number(x, s.scores.dtype) for x in (s.overlap, least)]
        sizes = ", ".join([*map(self.arithmetic.text, s.sizes), str(s.kept)])
        bounded = "false" if s.least is None else "true"
        arguments = f"&{scores}[0], &{boxes}[0], {sizes}, {limits[0]}, {bounded}, {limits[1]}, &{rows}[0]"
        self.line(f"{count}[0] = suppress({arguments});")

    def collapsed(self, s: Loop, names: Sequence[str]) -> None:
        """Write the iterations of collapsed loops. The innermost of them is a loop of its own, so that compilers
        compute before it what does not change in it.
        """
        *outer, last = names
        size = self.arithmetic.text(s.extents[-1])
        self.line("while (begin < end) {")
        self.depth += 1
        self.line(f"const int64_t stop = std::min<int64_t>({size}, {last} + end - begin);")
        self.level += len(outer)
        self.independent(s)
        self.block(f"for (; {last} < stop; ++{last}, ++begin)", s.body, variables=1)
        self.line(f"{last} = 0;")
        for at, (name, extent) in reversed(list(enumerate(zip(outer, s.extents)))[1:]):
            pad = INDENT * (len(outer) - 1 - at)
            self.line(f"{pad}if (++{name} == {self.arithmetic.text(extent)}) {{")
            self.line(f"{pad}{INDENT}{name} = 0;")
        self.line(f"{INDENT * (len(outer) - 1)}++{names[0]};")
        for i in reversed(range(len(outer) - 1)):
            self.line(f"{INDENT * i}}}")
        self.level -= len(outer)
        self.depth -= 1
        self.line("}")


def _without_unused_name(words: Container[str], parameter: str) -> str:
    """Return a parameter of a function, with its name as a comment if it is not one of the words of the body."""
    kind, name = parameter.rsplit(" ", 1)
    return parameter if name in words else f"{kind} /* {name} */"


def _is_bound(x: Scalar) -> bool:
    """Return whether a number is certainly not NaN."""
    return (x.op == "cast" and x.args[0].dtype.kind != "f") or (x.op == "const" and x.data == x.data)


def table_text(name: str, dtype: np.dtype[Any], array: Array) -> str:
    """Return a constant array as a C++ definition."""
    values = [number(v, dtype) for v in np.asarray(array).reshape(-1).tolist()]
    return "\n".join([*table_lines(f"static const {TYPES[dtype.name]} {name}", values), ""])


# ---- the fixed part of C++ files: includes, and the functions that loops call

_DEFINED = re.compile(r"(?:^|>\s*)(?:inline \S+|struct|class|Blocks) (\w+)", re.MULTILINE)
"""The name of a function or class of the helpers."""


def prelude(text: str, *, pooled: bool = True) -> str:
    """Return the includes, and the helpers that a C++ text uses.

    pooled: whether the memory of arrays is kept for later calls. Each object that calls the loops then has a
    `Keeper`. Otherwise functions allocate the arrays that they use for themselves.
    """
    words, kept = _words(text), []
    loops, functions = (template(__file__, name).split("\n\n") for name in ("loops.hpp", "functions.hpp"))
    memory = template(__file__, "pool.hpp" if pooled else "memory.hpp")
    for block in reversed([*loops, memory, *functions]):
        if words & set(_DEFINED.findall(block)):
            words |= _words(block)
            kept.append(block.strip("\n"))
    return "\n\n".join([template(__file__, "includes.hpp").strip("\n"), *kept[::-1], "}  // namespace\n"])


def _words(code: str) -> set[str]:
    """Return the words of C++ code, without those of its comments."""
    return set(re.findall(r"\w+", re.sub(r"//[^\n]*", "", code)))
