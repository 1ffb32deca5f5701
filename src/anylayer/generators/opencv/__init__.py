"""OpenCV in C++: a cv::dnn::Layer for each layer type, a CMake project, and a test that runs them in OpenCV."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from anylayer.errors import LayerError, at, given, need, wording
from anylayer.folders import fill, template
from anylayer.generators import Expected, Project
from anylayer.generators._cases import Case, cases_of, chosen_types
from anylayer.generators._cpp import (
    checks_of_shapes,
    cmake,
    describer,
    line_comment,
    names,
    numbers_or_texts,
    open_sizes,
    string,
    supported,
    tables_text,
)
from anylayer.generators._names import Names
from anylayer.generators._testing import missing_tools
from anylayer.layer import Bound
from anylayer.layer.opencv import opencv_params
from anylayer.loops import TYPES, CppFunction, Opened, lower, number, opened, prelude, to_cpp
from anylayer.source import Source, TracedNode

WHAT = "an OpenCV project in C++"
OPTIONS = ("layer",)

_FLOAT = np.dtype(np.float32)
_HEADERS = ("/usr/include/opencv4", "/usr/local/include/opencv4", "/opt/homebrew/include/opencv4")


def generate(source: Source, expected: Expected, layer: Sequence[str] = ()) -> Project:
    """Return a project: layers.cpp and layers.hpp with the classes, CMakeLists.txt, test_layers.cpp and its data.

    layer: the layer types to write; by default all types that the user defines.

    Raises LayerError for a layer without loops, and for arrays that OpenCV does not support.
    """
    cases = cases_of(source, expected, chosen_types(source, layer))
    written = LayerWriter()
    for case in cases:
        with at(case.node.place):
            _need_arrays(case)
            written.add(case.traced)
    tests = [_test(i, case) for i, case in enumerate(cases)]
    calls = "\n".join(f"    good = case_{i}(file) && good;" for i in range(len(cases)))
    files: dict[str, str | Sequence[bytes | memoryview]] = {
        "layers.hpp": template(__file__, "layers.hpp"),
        "layers.cpp": written.text(),
        "CMakeLists.txt": cmake("numpy_layers", 11, template(__file__, "library.cmake"))
        + template(__file__, "test.cmake"),
        "test_layers.cpp": fill(
            template(__file__, "test_layers.cpp"),
            tolerance=repr(expected.tolerance),
            cases="\n".join(tests),
            calls=calls,
        ),
        "test_data.bin": [
            np.ascontiguousarray(a, _FLOAT).tobytes()
            for case in cases
            for a in (*case.inputs, *case.outputs)
            if a is not None
        ],
    }
    commands = [
        ["cmake", "-S", ".", "-B", "build"],
        ["cmake", "--build", "build"],
        ["build/test_layers", "test_data.bin"],
    ]
    return Project(files, commands, _missing(), written.notes)


def _need_arrays(case: Case) -> None:
    """Raise LayerError for arrays whose dtype or rank OpenCV does not support."""
    for x in (*case.inputs, *case.outputs):
        x = given(x, "an input is absent, which OpenCV cannot express")
        need(x.dtype == _FLOAT, f"OpenCV's layers take float32 arrays only, got {x.dtype}")
        need(x.ndim >= 2, f"OpenCV has no arrays of rank {x.ndim}; reshape it in the layer, for example to (1, n)")
        need(x.size > 0, f"an array has shape {x.shape}, without elements")


def _test(at_: int, case: Case) -> str:
    """Return the C++ function that runs one case."""
    lines = [f"bool case_{at_}(std::ifstream& file) {{", "    LayerParams params;"]
    lines.append(f"    params.type = {string(case.node.type)};")
    for name, value in numbers_or_texts(opencv_params(case.node.params, case.node.defaults)).items():
        if isinstance(value, str):
            lines.append(f"    params.set({string(name)}, cv::String({string(value)}));")
        elif len(value) == 1:
            lines.append(f"    params.set({string(name)}, {_number(value[0])});")
        else:
            listed = ", ".join(map(_number, value))
            lines.append(f"    const std::vector<double> list_{len(lines)} = {{{listed}}};")
            array = f"cv::dnn::DictValue::arrayReal(list_{len(lines) - 1}.data(), {len(value)})"
            lines.append(f"    params.set({string(name)}, {array});")
    for blob in case.node.blobs:
        shape = blob.shape if blob.ndim > 1 else (1, blob.size)
        values = ", ".join(number(v, _FLOAT) for v in np.asarray(blob, _FLOAT).reshape(-1).tolist())
        lines.append(f"    static const float blob_{len(lines)}[] = {{{values}}};")
        sizes = f"std::vector<int>{{{', '.join(map(str, shape))}}}"
        lines.append(
            f"    params.blobs.push_back(cv::Mat({sizes}, CV_32F, const_cast<float*>(blob_{len(lines) - 1})));"
        )
    shapes = [
        "{" + ", ".join("{" + ", ".join(map(str, a.shape)) + "}" for a in arrays if a is not None) + "}"
        for arrays in (case.inputs, case.outputs)
    ]
    floors = "{" + ", ".join(f"{floor:.3g}" for floor in case.floors) + "}"
    return "\n".join([*lines, f"    return run(params, file, {shapes[0]}, {shapes[1]}, {floors});", "}", ""])


def _number(value: float) -> str:
    """Return a param as a C++ number: an int where it is one, as OpenCV reads it from a file."""
    if value.is_integer() and abs(value) < 2**31:
        return f"int64({int(value)})"
    return number(value, np.dtype(np.float64))


def _missing() -> str:
    """Return the names of the tools and packages that the test needs and that are not installed."""
    tools = missing_tools()
    installed = (
        shutil.which("pkg-config") is not None
        and not subprocess.run(["pkg-config", "--exists", "opencv4"], check=False).returncode
    )
    if not installed and not any((Path(folder) / "opencv2" / "dnn.hpp").is_file() for folder in _HEADERS):
        tools.append("OpenCV's headers (on Debian: apt-get install libopencv-dev)")
    return ", ".join(tools)


# ---- layer types as subclasses of cv::dnn::Layer: each combination of params and shapes has its own functions,
# which the class selects when a network is loaded

_INDENT = "    "


@dataclass(slots=True)
class _LayerType:
    """A layer type: its class, the functions of its cases, and their descriptions. `known` maps the text of a case
    without its name to the name, so that equal cases are found. `none` maps the
    names of all params of a case to the names of those params that are None; these are left out.
    """

    name: str
    cases: list[str] = field(default_factory=list)
    about: list[str] = field(default_factory=list)
    known: dict[str, str] = field(default_factory=dict)
    none: dict[frozenset[str], set[str]] = field(default_factory=dict)


class LayerWriter:
    """The layers of a project under construction."""

    def __init__(self) -> None:
        self.names: Names = names()
        self.types: dict[str, _LayerType] = {}
        self.blocks: list[str] = []
        self.notes: list[str] = []
        self.seen: set[str] = set()

    def add(self, traced: TracedNode) -> None:
        """Add a layer. Equal cases are written once."""
        layer = traced.bound
        if layer is None or layer.definition.native_only:
            raise LayerError(f"it has no class in NumPy; give one: {wording('layers=[...]', '-l layers.py')}")
        layer_type = self.types.get(traced.node.type)
        if layer_type is None:
            name = self.names.new(f"{traced.node.type}Layer", "Custom")
            layer_type = self.types[traced.node.type] = _LayerType(name)
        file_params = opencv_params(traced.node.params, traced.node.defaults)
        params = numbers_or_texts(file_params)
        none = file_params.keys() - params.keys()
        other = layer_type.none.setdefault(frozenset(params), none) ^ none
        rule = f"parameter '{min(other, default='')}' is None in one layer and absent in another"
        need(not other, f"{rule}; generated code cannot distinguish them")
        key = repr((traced.node.type, params, layer.types, [id(b) for b in traced.node.blobs]))
        if key in self.seen:
            return
        self.seen.add(key)
        source = opened(layer, free_params=True)
        program = lower(source)
        plain = _case("case", source, to_cpp(program, "case_kernel", describer(layer)), layer, params)
        if plain in layer_type.known:
            return
        name = self.names.new(f"{layer_type.name}_{len(layer_type.cases) + 1}")
        layer_type.known[plain] = name
        code = to_cpp(program, f"{name}_kernel", describer(layer))
        layer_type.cases.append(name)
        about = _about(source, code, params)
        layer_type.about.append(about)
        self.blocks.append(f"// {line_comment(traced.node.type)}: {line_comment(about)}\n")
        self.blocks.append(_case(name, source, code, layer, params))
        self.notes += [f"layer type {traced.node.type}: {note}" for note in source.notes]

    def text(self) -> str:
        """Return layers.cpp."""
        space = "namespace {\n\n" + "\n".join(self.blocks)
        classes = "\n".join(_class(t) for t in self.types.values())
        text = f"{template(__file__, 'layer.hpp')}\n{space}{classes}\n}}  // namespace\n\n{self.registration()}"
        return f"{template(__file__, 'includes.hpp')}{prelude(text)}\n{text}"

    def registration(self) -> str:
        """Return the function that registers all types."""
        lines = ["namespace numpy_layers {", "", "void register_layers() {", f"{_INDENT}static bool done = false;"]
        lines += [f"{_INDENT}if (done) return;", f"{_INDENT}done = true;"]
        for type_, layer_type in self.types.items():
            if type_.isascii() and type_.isidentifier() and type_ not in ("done", "main"):
                lines.append(f"{_INDENT}CV_DNN_REGISTER_LAYER_CLASS({type_}, {layer_type.name});")
            else:
                lines.append(
                    f"{_INDENT}cv::dnn::LayerFactory::registerLayer({string(type_)}, {layer_type.name}::create);"
                )
        return "\n".join([*lines, "}", "", "}  // namespace numpy_layers", ""])


def _class(layer_type: _LayerType) -> str:
    """Return the C++ class of a layer type."""
    cases = ", ".join(f"{{{n}_suits, {n}_shapes, {n}_run}}" for n in layer_type.cases)
    about = " or ".join(dict.fromkeys(layer_type.about))
    return f"""class {layer_type.name} CV_FINAL : public GeneratedLayer {{
public:
    explicit {layer_type.name}(const LayerParams& params)
        : GeneratedLayer(params, {{{cases}}},
                         {string(about)}) {{}}
    static cv::Ptr<cv::dnn::Layer> create(LayerParams& params) {{
        return cv::Ptr<cv::dnn::Layer>(new {layer_type.name}(params));
    }}
}};
"""


def _about(source: Opened, code: CppFunction, params: dict[str, list[float] | str]) -> str:
    """Return a description of a case, for a comment."""
    free = {p.name for p in code.params}
    texts = [
        f"any {n}" if n in free else f"{n}={v}" if isinstance(v, str) else f"{n}={', '.join(f'{x:g}' for x in v)}"
        for n, v in params.items()
    ]
    return supported(source, "; ".join(texts))


def _case(name: str, source: Opened, code: CppFunction, layer: Bound, params: dict[str, list[float] | str]) -> str:
    """Return the C++ functions of one case: the test that selects it, the shapes of its outputs, and its loops."""
    return "\n".join(
        [
            tables_text(name, code) + code.text,
            _suits(name, code, layer, params),
            _shapes(name, source, code),
            _run(name, source, code),
        ]
    )


def _suits(name: str, code: CppFunction, layer: Bound, params: dict[str, list[float] | str]) -> str:
    """Return the text of the function that returns whether a layer has the params and blobs of the case."""
    tests = [f"params.only({{{', '.join(map(string, params))}}})"]
    free = {(p.name, p.at) for p in code.params}
    for param, value in params.items():
        if not isinstance(value, str) and all((param, at) in free for at in range(len(value))):
            tests.append(f"params.count({string(param)}) == {len(value)}")
        elif isinstance(value, str):
            tests.append(f"params.is({string(param)}, std::string({string(value)}))")
        else:
            listed = ", ".join(number(v, np.dtype(np.float64)) for v in value)
            tests.append(f"params.is({string(param)}, std::vector<double>{{{listed}}})")
    tests.append(f"blobs.size() == {len(layer.node.blobs)}")
    for i, blob in enumerate(layer.node.blobs):
        if i in code.blobs:
            tests.append(f"blobs[{i}].total() == {blob.size} && blobs[{i}].type() == CV_32F")
            continue
        data = np.ascontiguousarray(blob, np.float32)
        tests.append(f"same_blob(blobs, {i}, {data.size}, {_hash(data.tobytes())}ull)")
    joined = f" &&\n{_INDENT * 2}   ".join(tests)
    head = f"bool {name}_suits(const Params& params, const std::vector<cv::Mat>& blobs) {{"
    return f"{head}\n{_INDENT}return {joined};\n}}\n"


def _hash(data: bytes) -> int:
    """Return the FNV-1a hash of bytes (64 bits), as the generated code computes it."""
    digest = 14695981039346656037
    for byte in data:
        digest = (digest ^ byte) * 1099511628211 % 2**64
    return digest


def _shapes(name: str, source: Opened, code: CppFunction) -> str:
    """Return the text of the function that checks the inputs' shapes and returns the outputs' shapes."""
    ranks, tests = checks_of_shapes(source, code)
    ranks = [f"inputs.size() != {len(code.inputs)}", *ranks]
    lines = [f"bool {name}_shapes(const std::vector<MatShape>& inputs, std::vector<MatShape>& outputs) {{"]
    lines.append(f"{_INDENT}if ({' || '.join(ranks)}) return false;")
    lines += [f"{_INDENT}{line}" for line in open_sizes(source, code, "inputs[{i}][{axis}]")]
    if tests:
        lines.append(f"{_INDENT}if ({' || '.join(tests)}) return false;")
    for a in code.outputs:
        sizes = ", ".join(f"int({code.size(e)})" for e in a.shape)
        lines.append(f"{_INDENT}outputs.push_back(MatShape{{{sizes}}});")
    unused = [f"{_INDENT}(void){s};" for s in code.sizes.values()]
    return "\n".join([*lines, *unused, f"{_INDENT}return true;", "}", ""])


def _run(name: str, source: Opened, code: CppFunction) -> str:
    """Return the text of the function that calls the loops."""
    words: list[str] = []
    for kind, arguments, const in (("inputs", code.inputs, "const "), ("outputs", code.outputs, "")):
        words += [f"{kind}[{i}].ptr<{const}{TYPES[a.dtype.name]}>()" for i, a in enumerate(arguments)]
    words += [f"{name}_{table}" for table, _ in code.tables]
    words += [f"blobs[{i}].ptr<const float>()" for i in code.blobs]
    words += [
        *code.sizes.values(),
        *(f"params.number({string(p.name)}, {p.at})" for p in code.params),
        "Parallel()",
    ]
    head = (
        f"bool {name}_run(const Params&{' params' if code.params else ''}, const std::vector<cv::Mat>&"
        f"{' blobs' if code.blobs else ''},\n"
        f"{_INDENT * 2}const std::vector<cv::Mat>& inputs, std::vector<cv::Mat>& outputs) {{"
    )
    sizes = [f"{_INDENT}{line}" for line in open_sizes(source, code, "inputs[{i}].size[{axis}]")]
    call = f"{_INDENT}return {code.name}({', '.join(words)});"
    return "\n".join([head, *sizes, call, "}", ""])
