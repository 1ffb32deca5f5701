"""Print loops as an OpenCL kernel. It reads the #defines that the host puts before the source: INPUT0_TYPE,
INPUT0_DIMS, INPUT0_PITCHES, INPUT0_OFFSET and so on.

Each work item computes elements of the outputs, so any global work size is valid. A kernel with temporary arrays
runs as one work group, with barriers between the loops.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np

from anylayer.errors import need
from anylayer.folders import template
from anylayer.graph.expressions import Expression, constant
from anylayer.loops.arithmetic import Arithmetic
from anylayer.loops.cpp import number
from anylayer.loops.ir import (
    CHECKS,
    INT,
    NEAR,
    Argument,
    Buffer,
    Comment,
    Let,
    Loop,
    LoopProgram,
    Scalar,
    Store,
    atoms_of,
    product,
    stores_of,
    used_scalars,
)
from anylayer.loops.parameters import ParamNumber
from anylayer.loops.printer import Printer, identifier, split_rounds
from anylayer.loops.schedule import scheduled

T = TypeVar("T")
GROUP = 256
"""The number of work items of a kernel that runs as one work group."""
_AXES = 4
_LETTERS = "BFYX"
"""The names of axes in global work sizes."""
_MAX_TABLE = 1 << 14
"""The largest number of elements of a constant: the constant memory of a device has at least 64 KiB."""
_NEAR = 1 << 20
"""The largest number that is added to an index in 32 bits."""
_TYPES = {
    "float32": "float", "float64": "wide", "bool": "bool", "int8": "char", "uint8": "uchar", "int16": "short",
    "uint16": "ushort", "int32": "int", "uint32": "uint", "int64": "long", "uint64": "ulong",
}  # fmt: skip
"""The type of each dtype inside of a kernel. "wide" is double where the device has it."""

_WHOLE = {"max": "larger", "min": "smaller"}
_REALS = {"nearbyint": "rint", "abs": "fabs"}
_FUNCTIONS = {"max": "maximum", "min": "minimum", "sign": "sign", "round": "rint"}
_TOP, *_HELPERS = template(__file__, "kernel.cl").strip("\n").split("\n\n")
"""The lines above all functions, and the functions that a kernel may call, each for a type T."""
_CALLED = {name: text for text in _HELPERS for name in re.findall(r"(\w+)_T\(", text)[:1]}
"""The name of a function without its type -> its text."""
_CALL = re.compile(rf"//.*|\b({'|'.join(_CALLED)})_({'|'.join(_TYPES.values())})\(")
"""A call of such a function, or a comment."""


def _forms(kind: str) -> dict[str, str]:
    """Return how OpenCL C spells index expressions in integers of a type: see Arithmetic."""
    return {
        "min": f"smaller_{kind}({{}}, {{}})", "max": f"larger_{kind}({{}}, {{}})",
        "//": f"floor_quotient_{kind}({{}}, {{}})", "double": "(wide)({})", "integer": f"({kind})({{}})",
        "call": "{}({})", "argument": "(wide)({})", "symbol": "(long){}" if kind == "long" else "{}",
    }  # fmt: skip


@dataclass(slots=True)
class OpenCLKernel:
    """An OpenCL kernel.

    Its parameters are pointers to the `inputs`, to the blobs with the indices `blobs` (as further inputs), to the
    `outputs`, and to temporary arrays of `scratch` bytes each. `params` are those that the text reads from
    defines. `group` is the size of the only work group, or 0. `work` are the global work sizes in the sizes of the
    first output; "" if any are valid. `rows` are instead the work sizes in the open sizes of one input, or [].
    """

    name: str
    text: str
    inputs: list[Argument]
    outputs: list[Argument]
    blobs: list[int]
    scratch: list[Expression]
    params: list[ParamNumber]
    group: int
    work: str
    rows: list[Expression]


def to_opencl(
    program: LoopProgram,
    name: str,
    sizes: Mapping[str, tuple[int, int, int]],
    describe: Callable[[str], str] | None = None,
    param: Callable[[ParamNumber], str] = lambda param: param.name,
) -> OpenCLKernel:
    """Return the kernel of a program that was lowered with `by_element`.

    name: an identifier. sizes: maps each open size to (input, axis, factor), as in Opened. describe: a function
    that returns the comment for a source line, one line of printable characters. param: a function that returns
    the expression for a param.

    Raises LayerError for arrays that such a kernel cannot take.
    """
    if not (name.isidentifier() and name.isascii()):
        raise ValueError(f"not an identifier: {name!a}")
    for what, arguments in (("input", program.inputs), ("output", program.outputs)):
        for i, a in enumerate(arguments):
            rank = len(a.shape)
            need(rank <= _AXES, f"{what} {i} has {rank} axes; an OpenCL kernel has at most {_AXES}: B, F, Y and X")
            need(a.dtype.kind != "b", f"{what} {i} is bool, which OpenCL kernels do not support")
    return _OpenCLPrinter(program, describe, sizes).kernel(name, param)


class _OpenCLPrinter(Printer):
    """The printer of OpenCL C. `long` spells index expressions in 64 bits, `arithmetic` in 32."""

    types, index, table_prefix, conversion = _TYPES, "int", "__constant", "({})({})"

    def __init__(
        self,
        program: LoopProgram,
        describe: Callable[[str], str] | None,
        sizes: Mapping[str, tuple[int, int, int]],
    ) -> None:
        self.sizes = {s: (identifier(s, i), *sizes[s]) for i, s in enumerate(program.sizes)}
        names = {s: entry[0] for s, entry in self.sizes.items()}
        for kind, arguments in (("INPUT", program.inputs), ("OUTPUT", program.outputs)):
            for i, a in enumerate(arguments):
                names[f"{a.name}.start"] = f"{kind}{i}_OFFSET"
                names.update({f"{a.name}.{k}": f"{kind}{i}_PITCHES[{k}]" for k in range(len(a.shape))})
        super().__init__(program, describe, Arithmetic(program, names, _forms("int"), _REALS))
        self.long = Arithmetic(program, names, _forms("long"), _REALS)
        self.blobs = [b for b in program.buffers if b.kind == "blob"]
        self.first_blob = len(program.inputs)
        self.group = self.by_axis = False
        self.kept = list(range(len(program.outputs[0].shape)))
        self.row: Expression | None = None

    # ------------------------------------------------------------------ scalars

    def number(self, value: Any, dtype: np.dtype[Any]) -> str:
        if dtype.kind == "f" and not math.isfinite(value):
            return "NAN" if math.isnan(value) else "INFINITY" if value > 0 else "(-INFINITY)"
        return number(value, dtype)

    def function(self, x: Scalar, arguments: str) -> str:
        kind = self.declared(x)
        if x.op in CHECKS:
            return f"{x.op}_int({arguments}, &valid)"
        if x.op == "div":
            return f"quotient_{kind}({arguments})"
        if x.op == "mod":
            return f"{'modulo' if x.dtype.kind in 'iu' else 'float_modulo'}_{kind}({arguments})"
        if x.op == "abs":
            return f"fabs({arguments})" if x.dtype.kind == "f" else f"magnitude_{kind}({arguments})"
        whole = _WHOLE.get(x.op) if x.dtype.kind in "iu" else None
        function = whole or _FUNCTIONS.get(x.op, x.op)
        return f"{f'{function}_{kind}' if function in _CALLED else function}({arguments})"

    def declared(self, x: Scalar) -> str:
        return "int" if x.op in CHECKS or x.data == NEAR else super().declared(x)

    def operand(self, x: Scalar, binds: int, at: int) -> str:
        text = super().operand(x, binds, at)
        wide = x.dtype == INT and x.data != NEAR and x.args[at].data == NEAR
        return f"(long)({text})" if wide else text

    def index_value(self, e: Expression) -> str:
        """Return an index expression: in 64 bits where it could leave the 32 bits of an index."""
        signs = []
        for monomial, factor in e.terms.items():
            if monomial and (len(monomial) > 1 or monomial[0][1] > 1 or monomial[0][0].function):
                return self.long.text(e)
            if monomial:
                signs.append(factor)
            elif abs(factor) > _NEAR:
                return self.long.text(e)
        near = all(abs(s) == 1 for s in signs) and sum(signs) in (-1, 0, 1) and len(signs) <= 2
        return self.arithmetic.text(e) if near else self.long.text(e)

    def place(self, buffer: Buffer, offset: Expression) -> str:
        if buffer.kind == "blob":
            at = self.first_blob + self.blobs.index(buffer)
            return f"input{at}[INPUT{at}_OFFSET + {self.arithmetic.text(offset)}]"
        return super().place(buffer, offset)

    def loaded(self, buffer: Buffer, offset: Expression) -> str:
        place = self.place(buffer, offset)
        if buffer.kind in ("input", "output", "blob"):
            return f"({_TYPES[buffer.dtype.name]}){place}"
        return f"(bool){place}" if buffer.dtype.kind == "b" else place

    def stored(self, buffer: Buffer, value: str) -> str:
        return f"valid ? {value} : NAN" if self.program.checks else value

    # -------------------------------------------------------------------- loops

    def loop(self, s: Loop) -> None:
        names, extents = self.loop_names(s.variables), s.extents
        if not s.parallel or self.depth > 1:  # sequential loops inside one work item
            body = [Loop(*s.more[0], s.body, more=s.more[1:])] if s.more else s.body
            stop = self.arithmetic.text(s.extent)
            self.block(f"for (int {names[0]} = 0; {names[0]} < {stop}; ++{names[0]})", body, variables=1)
            return
        found = self.matched(list(zip(names, extents))) if self.by_axis else None
        if found is not None and list(found) == self.kept:  # over the elements of the first output
            groups = enumerate(_dimensions(list(found.values())))
            ids = [line for at, group in groups for line in self.split(group, f"(int)get_global_id({at})")]
            self.block("", s.body, ids, len(names))
            return
        count = " * ".join(self.arithmetic.enclosed(e) for e in extents)
        item, items = ("item", "items") if self.by_axis else ("get_global_id(0)", "get_global_size(0)")
        head = f"for (uint round = {item}; round < {count}; round += {items})"
        self.block(head, s.body, self.split(list(zip(names, extents)), "round"), len(names))

    def split(self, variables: Sequence[tuple[str, Expression]], number: str) -> list[str]:
        """Return the definitions of the variables of collapsed loops for the number of an iteration."""
        names, extents = [name for name, _ in variables], [e for _, e in variables]
        return split_rounds(names, extents, self, number) or [f"const int {name} = {number};" for name in names]

    def matched(
        self, variables: Sequence[tuple[str, Expression]]
    ) -> dict[int, list[tuple[str, Expression]]] | None:
        """Return the variables of collapsed loops that stand for each axis of the first output, without the axes
        that no variable stands for. None if other variables are left.
        """
        variables_of: dict[int, list[tuple[str, Expression]]] = {}
        first = 0
        for axis, size in enumerate(self.program.outputs[0].shape):
            stop, product = first, constant(1)
            while product != size and stop < len(variables):
                product = product * variables[stop][1]
                stop += 1
            if product == size:
                variables_of[axis] = list(variables[first:stop])
                first = stop
        return variables_of if first == len(variables) else None

    def suits_axes(self) -> bool:
        """Return whether each work item can compute the element of the first output at its place, or a row of such
        elements: if there is a loop over these elements, and no loop reads what another loop writes. Set `kept`.
        """
        scalars = used_scalars(self.program.body, self.program.data)
        if any(x.op == "load" and x.data[0].kind in ("output", "temporary") for x in scalars):
            return False
        body = [s for s in self.program.body if not isinstance(s, (Comment, Let))]
        loops = [s for s in body if isinstance(s, Loop) and s.parallel]
        nests = [list(zip(s.variables, s.extents)) for s in loops]
        matches = [self.matched(one) for one in nests]
        writes = [any(one.buffer.name == self.program.outputs[0].name for one in stores_of([s])) for s in loops]
        row_axes = [
            list(m) for m, first in zip(matches, writes) if m is not None and (first or list(m) == self.kept)
        ]
        self.kept = max(row_axes, key=len, default=self.kept)
        if len(loops) != len(body):
            return False
        if any(m is None or list(m) != self.kept for m in matches):
            self.row = self.common_row(nests)
        return self.row is None and bool(row_axes)

    def common_row(self, nests: Sequence[Sequence[tuple[str, Expression]]]) -> Expression | None:
        """Return a number of elements that the last axes of all outputs have in common, so that a row of work
        items can compute them: the smallest one that is an open size, else the largest. None if there is none, or
        if the work sizes are not formulas of one input's sizes.
        """
        inputs = {self.sizes[s][1] for one in nests for _, e in one for s in e.symbols}
        if len(inputs) > 1 or any(True for one in nests for _, e in one for _ in atoms_of(e)):
            return None
        size, width = constant(1), None
        for _, extent in reversed(nests[0]):
            size = size * extent
            if (width is None or width.constant) and all(_last(one, size) is not None for one in nests):
                width = size
        return width

    def by_rows(self, body: Sequence[Any]) -> Expression:
        """Write loops whose iterations are rows of work items, and return the number of rows. A condition that
        holds for a whole row selects the loop, so that no work item waits for others, and compilers use vector
        instructions.
        """
        loops = [s for s in body if isinstance(s, Loop)]
        for s in body:
            if isinstance(s, (Comment, Let)):
                self.statement(s)
        stop = constant(0)
        for at, s in enumerate(loops):
            names = self.loop_names(s.variables)
            variables = list(zip(names, s.extents))
            first = _last(variables, self.row) or 0
            start, stop = stop, stop + product(s.extents[:first])
            row = f"(row - {self.arithmetic.enclosed(start)})" if at else "row"
            lines = [*self.split(variables[:first], row), *self.split(variables[first:], "column")]
            head = f"{'} else ' if at else ''}if (row < {self.arithmetic.text(stop)})"
            self.block(head, s.body, lines, len(names), end="}" if s is loops[-1] else "")
        return stop

    def stages(self, body: Sequence[Any]) -> None:
        """Write consecutive loops, with a barrier before each that reads a buffer written by an earlier one."""
        written: set[Buffer] = set()
        for s in body:
            if isinstance(s, Comment):
                self.comment(s)
                continue
            reads = {x.data[0] for x in used_scalars([s], self.program.data) if x.op == "load"}
            alone = isinstance(s, Store) or (isinstance(s, Loop) and not s.parallel)
            mine = {one.buffer for one in stores_of([s])}
            if not written.isdisjoint(reads | mine if alone else reads):
                self.group = True
                self.line("barrier(CLK_GLOBAL_MEM_FENCE);")
                written = set()
            if alone:
                self.block("if (get_global_id(0) == 0)", [s])
            else:
                self.statement(s)
            written |= mine

    # ------------------------------------------------------------------- kernel

    def kernel(self, name: str, param: Callable[[ParamNumber], str]) -> OpenCLKernel:
        self.depth = 0
        for b in self.tables():
            size = 0 if b.data is None else b.data.size
            need(size <= _MAX_TABLE, f"a constant has {size} elements; OpenCL code has at most {_MAX_TABLE}")
            self.table(b)
        tables, self.lines, self.depth = self.lines, [], 1
        self.by_axis = self.suits_axes()
        work: list[Expression] = []
        if self.row is not None:
            work = [self.row, self.by_rows(scheduled(self.program))]
        else:
            self.stages(scheduled(self.program))
        loops, self.lines = self.lines, []
        self.require_floats()
        self.definitions(param, loops)
        self.size_check(work)
        scratch = [b for b in self.program.buffers if b.kind == "temporary"]
        head = f"__kernel void {name}({', '.join(self.parameters(scratch))}) {{"
        text = "\n".join([*tables, head, *self.lines, *loops, "}", ""])
        calls = dict.fromkeys(call for call in _CALL.findall(text) if call[0])
        helpers = [re.sub(r"\bT\b|(?<=_)T\b", kind, _CALLED[one]) for one, kind in calls]
        return OpenCLKernel(
            name,
            "\n".join([_TOP, "", *helpers, text]),
            self.program.inputs,
            self.program.outputs,
            [int(b.name.removeprefix("blob")) for b in self.blobs],
            [b.count * constant(1 if b.dtype.kind == "b" else b.dtype.itemsize) for b in scratch],
            [found for _, found in self.program.params],
            GROUP if self.group else 0,
            ",".join("*".join(one) for one in _dimensions([_LETTERS[a] for a in self.kept]))
            if self.by_axis
            else "",
            work,
        )

    def require_floats(self) -> None:
        """Raise LayerError where an index outside of its axis could not be reported: as NaN, in each array."""
        need(
            not self.program.checks or all(s.buffer.dtype.kind == "f" for s in stores_of(self.program.body)),
            "an index comes from data, and the layer has arrays of integers; an OpenCL kernel reports an index "
            "out of range by NaN, which integers do not have",
        )

    def parameters(self, scratch: Sequence[Buffer]) -> list[str]:
        counts = len(self.program.inputs) + len(self.blobs), len(self.program.outputs)
        pointers = [f"const __global INPUT{i}_TYPE* input{i}" for i in range(counts[0])]
        pointers += [f"__global OUTPUT{i}_TYPE* output{i}" for i in range(counts[1])]
        types = ["uchar" if b.dtype.kind == "b" else _TYPES[b.dtype.name] for b in scratch]
        return pointers + [f"__global {kind}* {b.name}" for kind, b in zip(types, scratch)]

    def definitions(self, param: Callable[[ParamNumber], str], loops: Sequence[str]) -> None:
        """Write the definitions of open sizes, of params and of what the loops use."""
        for name, i, axis, factor in self.sizes.values():
            divided = f" / {factor}" if factor != 1 else ""
            self.line(f"const int {name} = INPUT{i}_DIMS[{axis}]{divided};")
        for local, one in self.program.params:
            self.line(f"const wide {local} = {param(one)};")
        if self.program.checks:
            self.line("bool valid = true;")
        if any(" = item; " in line for line in loops):
            row = "get_global_id(1) + get_global_size(1) * get_global_id(2)"
            self.line(f"const uint item = get_global_id(0) + get_global_size(0) * ({row});")
            self.line("const uint items = get_global_size(0) * get_global_size(1) * get_global_size(2);")
        if self.row is not None:
            self.line("const int column = (int)get_global_id(0), row = (int)get_global_id(1);")

    def size_check(self, work: Sequence[Expression]) -> None:
        """Write a check of all sizes and work sizes. For unsupported sizes the kernel writes nothing."""
        tests = []
        for kind, arguments in (("INPUT", self.program.inputs), ("OUTPUT", self.program.outputs)):
            for i, a in enumerate(arguments):
                dims = [(f"{kind}{i}_DIMS[{axis}]", self.arithmetic.text(e)) for axis, e in enumerate(a.shape)]
                sources = {(name, factor): f"INPUT{n}_DIMS[{k}]" for name, n, k, factor in self.sizes.values()}
                tests += [f"{dim} != {e}" for dim, e in dims if sources.get((e, 1)) != dim]
        tests += [f"!({self.arithmetic.condition(g)})" for g in self.program.conditions]
        if self.by_axis:
            shape = self.program.outputs[0].shape
            work = [product(one) for one in _dimensions([[shape[a]] for a in self.kept])]
        tests += [f"GLOBAL_WORKSIZE[{at}] != {self.arithmetic.text(e)}" for at, e in enumerate(work)]
        if tests:
            self.line(f"if ({' || '.join(tests)}) return;  // there is no code for these sizes")


def _last(variables: Sequence[tuple[str, Expression]], size: Expression | None) -> int | None:
    """Return the position of the first of the innermost collapsed loops that have `size` iterations, or None."""
    product = constant(1)
    for at in reversed(range(len(variables))):
        product = product * variables[at][1]
        if product == size:
            return at
    return None


def _dimensions(axes: Sequence[Sequence[T]]) -> list[list[T]]:
    """Return what each dimension of the work items stands for, of what each axis stands for: the last axis comes
    first, and the third dimension stands for the first two of four axes.
    """
    dimensions = [list(one) for one in axes]
    return [*dimensions[:1:-1], dimensions[0] + dimensions[1]] if len(dimensions) == _AXES else dimensions[::-1]
