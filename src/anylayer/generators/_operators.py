"""Layers as custom operators of a runtime: the network with a call for each of them, and their loops in C++.

A layer type has one operator for each combination of params and blobs that needs its own code: Interp, Interp_2
and so on. An operator works for all sizes that the layer's code allows, and reports an error for others.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from hashlib import sha256

import numpy as np

from anylayer.errors import LayerError, at, need, wording
from anylayer.folders import template
from anylayer.generators._cpp import (
    checks_of_shapes,
    describer,
    line_comment,
    names,
    open_sizes,
    string,
    supported,
    tables_text,
)
from anylayer.graph import Graph, Value
from anylayer.layer import Bound
from anylayer.layer.opencv import opencv_params
from anylayer.libraries.onnx import elem_type
from anylayer.loops import TYPES, CppFunction, Opened, lower, opened, prelude, to_cpp
from anylayer.loops.parameters import ParamNumber
from anylayer.network import Flag
from anylayer.source import Source, TracedNode

DOMAIN = "layers"
"""The domain of the operators."""
_WEIGHTS = "weights_in_code"
"""An attribute that identifies the blobs of a layer that are numbers in its operator's code."""
_INDENT = "    "


@dataclass(slots=True)
class OperatorCase:
    """One operator of a layer type: its name, its loops, and a description of the layers that it computes.

    `params` are the attributes of the first such layer, as texts. `free` maps the params that the operator reads
    when it runs to their number of values; for all other params it supports only the values in `params`. `blobs`
    are the shapes of the blobs that are inputs.
    """

    name: str
    type: str
    code: CppFunction
    source: Opened
    bound: Bound
    about: str
    params: dict[str, str]
    free: dict[str, int]
    blobs: list[tuple[int, ...]]


class Operators:
    """The operators of a project under construction.

    The params of a layer are attributes of its call, as texts. The operator reads the free params (see
    loops.parameters), and reports an error for other values of all others. Free blobs are inputs.

    dtypes: the element types that the runtime passes to operators unchanged; () for all types. reserved: names
    that no operator may have.
    """

    def __init__(
        self, source: Source, types: Collection[str], dtypes: Sequence[str] = (), reserved: Sequence[str] = ()
    ) -> None:
        self._source, self._types, self._dtypes = source, types, dtypes
        self._names = names(reserved)
        self._cases: dict[str, OperatorCase] = {}
        self._values: dict[str, Value | None] = {"": None}
        self.notes: list[str] = []
        self.graph = self._network()

    @property
    def cases(self) -> list[OperatorCase]:
        """The operators."""
        return list(self._cases.values())

    def _network(self) -> Graph:
        """Return the network as a graph with a call of an operator for each layer of the chosen types."""
        graph = Graph()
        graph.reserve([name for t in self._source.nodes for name in t.node.outputs])
        for name, kind in self._source.inputs.items():
            self._values[name] = graph.input(name, kind.shape, kind.dtype)
        for t in self._source.nodes:
            with at(t.node.place):
                results = self._called(graph, t) if t.node.type in self._types else self._inline(graph, t)
            for name, value in zip(t.node.outputs, results):
                self._values[name] = value
                if value.const is None and value not in graph.inputs:
                    graph.rename(value, name)
        graph.outputs = [v for name in self._source.outputs.values() if (v := self._values[name]) is not None]
        return graph

    def _inline(self, graph: Graph, t: TracedNode) -> list[Value]:
        if t.body is None:
            return [graph.constant(t.constants[i], trusted=True) for i in range(len(t.node.outputs))]
        values = [self._values[name] for name in t.node.inputs]
        return graph.inline(t.body, [v for v in values if v is not None and v.const is None], scope=t.node.name)

    def _called(self, graph: Graph, t: TracedNode) -> list[Value]:
        """Add a layer as a call of its operator. A layer whose outputs are constant stays a constant."""
        if t.body is None:
            return self._inline(graph, t)
        values = [self._values[name] for name in t.node.inputs]
        need(None not in values, "an optional input is absent, which operators in C++ do not support")
        for kind in (*t.inputs, *t.outputs):
            if kind is not None and self._dtypes:
                fits = kind.dtype.name in self._dtypes
                need(fits, f"an array is {kind.dtype}; operators support only {' and '.join(self._dtypes)}")
        kernel, params = self._kernel(t)
        values += [graph.constant(t.node.blobs[i], trusted=True) for i in kernel.code.blobs]
        types = [(kind.shape, kind.dtype) for kind in t.outputs if kind is not None]
        return graph.emit(
            kernel.name, values, types, params, scope=t.node.name, place=t.node.place, domain=DOMAIN, kept=True
        )

    def _kernel(self, t: TracedNode) -> tuple[OperatorCase, dict[str, str]]:
        """Return the operator of a layer, and the attributes of its call. Equal loops are one operator."""
        if t.bound is None or t.bound.definition.native_only:
            raise LayerError(f"it has no class in NumPy; give one: {wording('layers=[...]', '-l layers.py')}")
        texts = _params(t)
        source = opened(t.bound, free_params=True)
        program = lower(source)
        plain = to_cpp(program, "kernel")
        read = Counter(p.name for p in plain.params)
        counts = {name: text.count(",") + 1 for name, text in texts.items()}
        free = {name: n for name, n in counts.items() if read[name] == n}
        if set(read) - free.keys():  # a number of a param that cannot be an attribute
            source, free = opened(t.bound), {}
            program = lower(source)
            plain = to_cpp(program, "kernel")
        blobs = [t.node.blobs[i].shape for i in plain.blobs]
        inside = [blob for i, blob in enumerate(t.node.blobs) if i not in plain.blobs]
        if inside:
            texts[_WEIGHTS] = f"w{sha256(b''.join(blob.tobytes() for blob in inside)).hexdigest()[:16]}"
        fixed = {name: text for name, text in texts.items() if name not in free}
        tables = [b.data.tobytes() for b in program.buffers if b.data is not None]
        key = repr((t.node.type, plain.text, fixed, free, blobs, [hash(data) for data in tables]))
        if key not in self._cases:
            name = self._names.new(t.node.type, "Layer")
            code = to_cpp(program, f"{name}_kernel", describer(t.bound))
            about = _about(t, source, free)
            self.notes += [f"layer type {t.node.type}: {note}" for note in source.notes]
            self._cases[key] = OperatorCase(name, t.node.type, code, source, t.bound, about, texts, free, blobs)
        return self._cases[key], texts

    def text(self, module: str) -> str:
        """Return the C++ text of all operators, and the helpers that it uses.

        module: `__file__` of the target. Its templates are includes.hpp, parallel.hpp with the struct Parallel,
        which distributes the iterations of loops to threads, and layers.cpp, which registers the operators of the
        list `kernels`.
        """
        kernels = list(self._cases.values())
        need(kernels, "all layers of these types are constants, so there is no operator to write")
        blocks = [_functions(kernel) for kernel in kernels]
        listed = "".join(f"{_INDENT}{_entry(kernel)},\n" for kernel in kernels)
        parts = [
            template(module, "parallel.hpp"),
            template(__file__, "operators.hpp"),
            "namespace {\n",
            *blocks,
            f"const Kernel kernels[] = {{\n{listed}}};\n",
        ]
        text = "\n".join([*parts, "}  // namespace\n"]) + template(module, "layers.cpp")
        return f"{template(module, 'includes.hpp')}{prelude(text)}\n{text}"


def _functions(kernel: OperatorCase) -> str:
    """Return the functions of an operator, preceded by a comment that describes them."""
    tables = tables_text(kernel.name, kernel.code)
    about = f"// {line_comment(kernel.type)}: {line_comment(kernel.about)}"
    return "\n".join([about, tables + kernel.code.text, _shapes(kernel), _run(kernel)])


def _about(t: TracedNode, source: Opened, free: Collection[str]) -> str:
    """Return a description of the layers that the code supports."""
    values = opencv_params(t.node.params, t.node.defaults).items()
    return supported(source, ", ".join(f"any {n}" if n in free else f"{n}={v}" for n, v in values))


def _sizes(kernel: OperatorCase) -> list[str]:
    """Return lines that define the open sizes from the shapes of the inputs."""
    lines = open_sizes(kernel.source, kernel.code, "inputs[{i}][{axis}]")
    return [f"{_INDENT}{line}" for line in (*lines, *(f"(void){size};" for size in kernel.code.sizes.values()))]


def _shapes(kernel: OperatorCase) -> str:
    """Return the text of the function that checks the inputs' shapes and returns the outputs' shapes."""
    code = kernel.code
    ranks, tests = checks_of_shapes(kernel.source, code)
    ranks = [f"inputs.size() != {len(code.inputs) + len(kernel.blobs)}", *ranks]
    for i, shape in enumerate(kernel.blobs, len(code.inputs)):
        ranks.append(f"inputs[{i}] != std::vector<int64_t>{{{', '.join(map(str, shape))}}}")
    outputs = ", ".join("{" + ", ".join(map(code.size, a.shape)) + "}" for a in code.outputs)
    lines = [
        f"bool {kernel.name}_shapes(const Shapes& inputs, Shapes& outputs) {{",
        f"{_INDENT}if ({' || '.join(ranks)}) return false;",
        *_sizes(kernel),
        *([f"{_INDENT}if ({' || '.join(tests)}) return false;"] if tests else []),
        f"{_INDENT}outputs = Shapes{{{outputs}}};",
        f"{_INDENT}return true;",
        "}",
        "",
    ]
    return "\n".join(lines)


def _run(kernel: OperatorCase) -> str:
    """Return the text of the function that calls the loops."""
    code = kernel.code
    words = [f"static_cast<const {TYPES[a.dtype.name]}*>(from[{i}])" for i, a in enumerate(code.inputs)]
    words += [f"static_cast<{TYPES[a.dtype.name]}*>(to[{i}])" for i, a in enumerate(code.outputs)]
    words += [f"{kernel.name}_{name}" for name, _ in code.tables]
    words += [f"static_cast<const float*>(from[{len(code.inputs) + i}])" for i in range(len(kernel.blobs))]
    words += [*code.sizes.values(), *(f"numbers[{_place(kernel, p)}]" for p in code.params), "parallel"]
    lines = [
        f"bool {kernel.name}_run(const Shapes& inputs, const void* const* from, void* const* to,",
        f"{_INDENT * 2}const double* numbers, const Parallel& parallel) {{",
        f"{_INDENT}(void)inputs;",
        f"{_INDENT}(void)numbers;",
        *_sizes(kernel),
        f"{_INDENT}return {code.name}({', '.join(words)});",
        "}",
        "",
    ]
    return "\n".join(lines)


def _place(kernel: OperatorCase, param: ParamNumber) -> int:
    """Return the position of a param's number among all numbers that the code reads."""
    before = list(kernel.free)[: list(kernel.free).index(param.name)]
    return sum(kernel.free[name] for name in before) + param.at


def _entry(kernel: OperatorCase) -> str:
    """Return the entry of the list of operators."""
    dtypes = [*(a.dtype for a in kernel.code.inputs), *[np.dtype(np.float32)] * len(kernel.blobs)]
    inputs = ", ".join(str(elem_type(dtype)) for dtype in dtypes)
    outputs = ", ".join(str(elem_type(a.dtype)) for a in kernel.code.outputs)
    about = string(f"layer type {kernel.type}: {kernel.about}")
    ordered = [*kernel.free, *(name for name in kernel.params if name not in kernel.free)]
    texts = {**kernel.params, **dict.fromkeys(kernel.free, "")}
    params = ", ".join(
        f"{{{string(name)}, {string(texts[name])}, {kernel.free.get(name, 0)}}}" for name in ordered
    )
    words = [string(kernel.name), about, f"{{{params}}}", f"{{{inputs}}}", f"{{{outputs}}}"]
    return f"{{{', '.join(words)}, {kernel.name}_shapes, {kernel.name}_run}}"


def _params(t: TracedNode) -> dict[str, str]:
    """Return the params that can be attributes, as texts."""
    texts = {}
    for name, value in opencv_params(t.node.params, t.node.defaults).items():
        values = list(value) if isinstance(value, (tuple, list)) else [value]
        if name.isascii() and name.isidentifier() and all(isinstance(v, (int, float, str)) for v in values):
            texts[name] = ", ".join(_text(v) for v in values)
    return texts


def _text(value: float | str) -> str:
    """Return a param as the text of an attribute. Raises LayerError for characters that XML cannot contain."""
    if isinstance(value, (bool, Flag)):
        return "true" if value else "false"
    if isinstance(value, str):
        return value if value.isprintable() else ascii(value)
    return repr(value)
