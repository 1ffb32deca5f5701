"""OpenVINO: an extension in C++, the IR that uses its operations, and a test that runs both."""

from __future__ import annotations

import re
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from xml.sax.saxutils import quoteattr

from anylayer.errors import LayerError, need
from anylayer.folders import fill, template
from anylayer.generators import Expected, Project
from anylayer.generators._cases import chosen_types
from anylayer.generators._cpp import cmake, describer, line_comment
from anylayer.generators._operators import OperatorCase, Operators
from anylayer.generators._testing import CHECKS, missing_tools, test_data, tolerances
from anylayer.graph.expressions import Atom, Expression
from anylayer.loops import lower
from anylayer.loops.opencl import OpenCLKernel, to_opencl
from anylayer.loops.parameters import ParamNumber
from anylayer.source import Source
from anylayer.writers.openvino import RESPELLED, write

WHAT = "an extension of OpenVINO in C++"
OPTIONS = ("layer",)
QUANTIZED = True

_DTYPES = ("float32", "int32")
"""The element types that OpenVINO's CPU plugin passes unchanged. It narrows others."""


def generate(source: Source, expected: Expected, layer: Sequence[str] = ()) -> Project:
    """Return a project: layers.cpp with the operations, CMakeLists.txt, model.xml and model.bin, test_model.py
    with its data, a source in OpenCL per operation, kernels.xml, and test_kernels.py.

    layer: the layer types that become operations; by default all types that the user defines. The other layers are
    OpenVINO's operations in the model.

    Raises LayerError for a layer without loops, and EngineError if OpenVINO is not installed.
    """
    written = Operators(source, chosen_types(source, layer), _DTYPES, tuple(RESPELLED))
    opencl = kernels(written.cases)
    with tempfile.TemporaryDirectory(prefix="anylayer-") as folder:
        saved = write(replace(source, graph=written.graph), Path(folder) / "model.xml")
        model = {file.name: [file.read_bytes()] for file in saved.files}
    tested = bool(opencl.files) and opencl.complete
    values = {
        "tolerances": tolerances(expected),
        "samples": str(len(expected.samples)),
        "inputs": ascii(list(source.inputs)),
        "outputs": ascii([saved.outputs.get(name, name) for name in source.outputs]),
        "checks": CHECKS,
    }
    return Project(
        files={
            "layers.cpp": written.text(__file__),
            "CMakeLists.txt": cmake("layers", 17, template(__file__, "library.cmake")),
            **model,
            "test_model.py": fill(template(__file__, "test_model.py.in"), **values),
            "test_data.npz": [test_data(expected)],
            **opencl.files,
            **({"test_kernels.py": fill(template(__file__, "test_kernels.py.in"), **values)} if tested else {}),
        },
        test=[
            [sys.executable, "-B", "test_model.py", "build"],
            [sys.executable, "-B", "test_model.py"],
            *([[sys.executable, "-B", "test_kernels.py"]] if tested else []),
        ],
        missing=", ".join(missing_tools("openvino")),
        notes=[*written.notes, *opencl.notes, *saved.notes],
    )


# ---- OpenCL kernels, and the configuration that OpenVINO's GPU plugin and anylayer read

_AXES = "BFYX"
_NUMBER = re.compile(r"-?\d+(\.\d+)?(e[+-]?\d+)?", re.ASCII)


@dataclass(slots=True)
class Kernels:
    """The files of the kernels, and notes on the layers without one. `complete`: each layer has one."""

    files: dict[str, str] = field(default_factory=dict)
    complete: bool = True
    notes: list[str] = field(default_factory=list)


def kernels(cases: Iterable[OperatorCase]) -> Kernels:
    """Return a source for each operator, and kernels.xml with an element for each of them.

    An operator for which no kernel can be generated gets a note, and is computed by the C++ extension.
    """
    result, elements = Kernels(), []
    for case in cases:
        try:
            program = lower(case.source, by_element=True)
            name = f"{case.name}_kernel"  # so that it is not a keyword of OpenCL C
            kernel = to_opencl(program, name, case.source.sizes, describer(case.bound), _define_of(case))
            checks = "".join(_check(name, text) for name, text in case.params.items() if name not in case.free)
            elements.append(_element(case, kernel))
        except LayerError as error:
            why = error.message
            result.complete = False
            result.notes.append(f"layer type {case.type} has no OpenCL kernel: {why}. Use the operator in C++")
            continue
        about = f"// {line_comment(case.type)}: {line_comment(case.about)}\n"
        result.files[f"{case.name}.cl"] = about + checks + kernel.text
    if elements:
        result.files["kernels.xml"] = "\n".join(elements)
    return result


def _define_of(case: OperatorCase) -> Callable[[ParamNumber], str]:
    """Return a function that returns the name of a param's #define."""

    def define(param: ParamNumber) -> str:
        several = case.free[param.name] > 1
        return f"PARAM_{param.name}[{param.at}]" if several else f"PARAM_{param.name}"

    return define


_WORD = """
#define WORD_{name}_{text} 1
#define PASTED(a, b) a##b
#define IS_{name}(word) PASTED(WORD_{name}_, word)
#if !IS_{name}(PARAM_{name})
#error the parameter {name} has a value for which there is no code
#endif
#undef PASTED
"""
_NUMBERS = """
#define CALLED(f, ...) f(__VA_ARGS__)
#define IS_{name}({letters}) ({tests})
enum {{ {name}_is_known = CALLED(IS_{name}, PARAM_{name}) }};
typedef char parameter_{name}_has_a_value_without_code[{name}_is_known ? 1 : -1];
#undef CALLED
"""


def _check(name: str, text: str) -> str:
    """Return lines that do not compile unless the #define of a param has the value that the code is for."""
    numbers = [{"true": "1", "false": "0"}.get(word, word) for word in text.split(", ")]
    if all(_NUMBER.fullmatch(word) for word in numbers):
        letters = [f"x{i}" for i in range(len(numbers))]
        tests = [
            f"({x}) == {n}" if n.lstrip("-").isdigit() else f"(float)({x}) == (float){n}"
            for x, n in zip(letters, numbers)
        ]
        return _NUMBERS.format(name=name, letters=", ".join(letters), tests=" && ".join(tests))
    need(
        text.isascii() and text.isidentifier(),
        f"the parameter {name} is {text[:60]!r}, which OpenCL C cannot compare with that of another layer",
    )
    return _WORD.format(name=name, text=text)


def _element(case: OperatorCase, kernel: OpenCLKernel) -> str:
    """Return the <CustomLayer> of a kernel."""
    lines = [f'<CustomLayer name={quoteattr(case.name)} type="SimpleGPU" version="1">']
    lines += [
        f"  <Kernel entry={quoteattr(kernel.name)}>",
        f"    <Source filename={quoteattr(case.name + '.cl')}/>",
    ]
    for name in case.params:
        count = case.free.get(name, 0)
        kind = f' type="{"float[]" if count > 1 else "float"}"' if count else ""
        lines.append(f"    <Define name={quoteattr(f'PARAM_{name}')}{kind} param={quoteattr(name)}/>")
    lines += ["  </Kernel>", "  <Buffers>"]
    lines += [f'    <Tensor arg-index="{i}" {rest}/>' for i, rest in enumerate(_tensors(case, kernel))]
    lines.append("  </Buffers>")
    if kernel.group:
        dim = f' dim="input,{_input_of(case, kernel.scratch)}"' if kernel.scratch else ""
        lines.append(f'  <WorkSizes global="{kernel.group}" local="{kernel.group}"{dim}/>')
    elif kernel.rows:
        sizes = ",".join(_formula(size, case) for size in kernel.rows)
        lines.append(f'  <WorkSizes global="{sizes}" dim="input,{_input_of(case, kernel.rows)}"/>')
    elif kernel.work:
        lines.append(f'  <WorkSizes global="{kernel.work}"/>')
    return "\n".join([*lines, "</CustomLayer>", ""])


def _tensors(case: OperatorCase, kernel: OpenCLKernel) -> Iterator[str]:
    """Yield the attributes of each argument."""
    for i in range(len(kernel.inputs) + len(kernel.blobs)):
        yield f'type="input" port-index="{i}" format="BFYX"'
    for i in range(len(kernel.outputs)):
        yield f'type="output" port-index="{i}" format="BFYX"'
    for size in kernel.scratch:
        yield f'type="internal" size={quoteattr(_formula(size, case))}'


def _input_of(case: OperatorCase, sizes: Iterable[Expression]) -> int:
    """Return the index of the input whose sizes are in these formulas."""
    inputs = {case.source.sizes[s][0] for size in sizes for s in size.symbols}
    need(len(inputs) <= 1, "the size of an array between its loops depends on several inputs")
    return min(inputs, default=0)


def _formula(size: Expression, case: OperatorCase) -> str:
    """Return a size as a formula of B, F, Y and X: a larger one where the size is a minimum."""
    text = ""
    for monomial, factor in sorted(size.terms.items(), key=lambda term: term[1] < 0):
        need(factor > 0 or "min(" not in str(size), f"an array between its loops has {size} elements")
        words = [_word(atom, case) for atom, power in monomial for _ in range(power)]
        words = words if words and abs(factor) == 1 else [str(abs(factor)), *words]
        text += ("-" if factor < 0 else "+" if text else "") + "*".join(words)
    return text


def _word(atom: Atom, case: OperatorCase) -> str:
    """Return a size, or a quotient of sizes, as a formula."""
    if atom.function == "min":
        return f"({_formula(min(atom.arguments, key=lambda e: e.constant is None), case)})"
    if atom.function == "//":
        a, b = (_formula(e, case) for e in atom.arguments)
        return f"(({a})/({b}))"
    need(
        not atom.function,
        f"an array between its loops has the size {atom.text}, which is not a formula of the inputs' sizes",
    )
    _, axis, times = case.source.sizes[atom.name]
    return f"({_AXES[axis]}/{times})" if times != 1 else _AXES[axis]
