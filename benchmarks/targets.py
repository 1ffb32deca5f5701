"""How fast generated layers are in their targets: `python -m benchmarks.targets` prints tables for its page.

Each row is a layer of examples/layers, or an elementwise one, at the size of a real network. The columns are the
shortest times in milliseconds, on one thread, of calls that take turns in one process, each twice:

    NumPy      the class; a result that is a view is copied
    generated  the layer that `generate` writes, called by the runtime of the target
    loops      plain loops written by hand (native/loops.cpp, native/loops.cl) in the place of the generated ones;
               for opencv-python, the class itself, registered in cv2 without the generated module
    own        operators of the runtime (targets_own.py), where it has them

`ratio` is that of the generated layer and the faster one of the two last, for opencv-python the class. A time in
OpenCL is that of the kernel, as its event states it, without copies. Each result is compared with NumPy's.
`--only NAME` chooses rows, `--target NAME` chooses targets, and `--docs` writes the tables to the page. A target
needs the tools of its project. opencv-python needs the environment of the peers (`python -m benchmarks
--make-peers`), which has OpenCV 4.
"""

from __future__ import annotations

import argparse
import ctypes
import importlib.util
import json
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

import anylayer
from anylayer.api import Net
from anylayer.compile.plan import KernelStep
from anylayer.kernels.opencl.layer import OpenCLLayer
from anylayer.layer.bound import Bound
from anylayer.layer.opencv import opencv_params
from anylayer.network import Array, Network, TensorType
from benchmarks.__main__ import peers
from benchmarks.loops import HAND, LAYERS, layer_of
from benchmarks.runners import shortest
from benchmarks.targets_own import own_model, torch_functions

TARGETS = {
    "opencv": "OpenCV in C++",
    "opencv-python": "OpenCV in Python",
    "onnxruntime": "ONNX Runtime",
    "openvino": "OpenVINO",
    "opencl": "OpenCL",
    "pytorch": "PyTorch",
}
"""The targets with the headings of their tables."""
TOLERANCE = 1e-5
_OTHER = 1e-4
"""The largest difference from NumPy of an operator of the runtime for the same function."""
_LIMIT = 600
"""Seconds for cv2, which waits for ever where a class raises an exception."""
KINDS = ("NumPy", "generated", "loops", "own")
PAGE = Path(__file__).parent.parent / "docs" / "generate-measured.md"
START, END = "<!-- measured: python -m benchmarks.targets --docs -->\n", "<!-- end of measured part -->\n"
_FLAGS = ("-O3", "-march=native", "-ffp-contract=off", "-fno-math-errno", "-fno-trapping-math", "-shared", "-fPIC")
"""The flags of the generated CMakeLists.txt with -DNATIVE=ON."""
_KERNEL = re.compile(r"^static bool (\w+)_kernel\((.*?)\) \{\n.*?^\}\n", re.DOTALL | re.MULTILINE)
_POINTERS = re.compile(r"\b(?:input|output)\d+\b")
_WORK = {"Normalize": ("X,Y,B", ""), "Yolo": ("X,Y,B*F", ' dim="input,0"')}
"""The work sizes of the kernels of native/loops.cl that are not one item per element of the output."""


@dataclass
class Row:
    """A layer with its inputs and NumPy's outputs. `calls` are timed, and `kept` is what they use."""

    layer: Bound
    inputs: list[Array]
    want: list[Array]
    calls: dict[str, Callable[[], Any]] = field(default_factory=dict)
    kept: list[Any] = field(default_factory=list)

    def add(self, kind: str, call: Callable[[], Any], outputs: Callable[[], Sequence[Any]] | None = None) -> None:
        """Add a call, after its outputs are compared with NumPy's. outputs: returns them after a call."""
        result = call()
        found = [np.asarray(y) for y in (outputs() if outputs else result)]
        for got, want in zip(found, self.want, strict=True):
            error = float(np.abs(got.reshape(want.shape) - want).max() / np.abs(want).max())
            if kind == "own" and not error <= _OTHER:
                return  # the operator computes something else
            if kind != "own" and not error <= TOLERANCE:
                raise SystemExit(
                    f"{self.layer.node.type}, {kind}: the largest difference from NumPy is {error:.1e}"
                )
        self.calls[kind] = call
        self.kept.append(outputs)  # a runtime writes to them

    def empty(self) -> list[Array]:
        """Return arrays for the outputs."""
        return [np.full_like(y, 77) for y in self.want]


def rows_of(names: Sequence[str], folder: Path) -> dict[str, Row]:
    """Return the rows of these layers, with the call in NumPy."""
    found: dict[str, Row] = {}
    for name in names:
        layer, inputs = layer_of(name, folder), LAYERS[name][2]
        want = [np.ascontiguousarray(y) for y in layer(inputs)]
        row = found[name] = Row(layer, inputs, want)
        row.add("NumPy", lambda layer=layer, inputs=inputs: [np.ascontiguousarray(y) for y in layer(inputs)])
    return found


def network(rows: Mapping[str, Row]) -> tuple[Net, dict[str, Array]]:
    """Return a network of the layers side by side, with its inputs."""
    nodes, given = [], {}
    for name, row in rows.items():
        node = row.layer.node
        node.name = name
        node.inputs = [f"{name}_in{i}" for i in range(len(row.inputs))]
        node.outputs = [f"{name}_out{i}" for i in range(len(row.want))]
        nodes.append(node)
        given.update(zip(node.inputs, row.inputs))
    types: dict[str, TensorType | None] = {n: TensorType.of(x.shape) for n, x in given.items()}
    outputs = {n: n for node in nodes for n in node.outputs}
    definitions = {name: row.layer.definition for name, row in rows.items()}
    return Net(Network("layers", "caffe", types, nodes, outputs), definitions), given


def projects(target: str, rows: Mapping[str, Row], folder: Path) -> tuple[Path, Path]:
    """Return the folder of a generated project in C++, and of one with the loops written by hand in its place."""
    net, given = network(rows)
    for name in ("generated", "loops"):
        net.generate(target, folder / name, inputs=given, test=False)
    source = folder / "loops" / "layers.cpp"
    declared = "".join(f'extern "C" void hand_{name}(void* const*, const int64_t*);\n' for name in rows)

    def by_hand(match: re.Match[str]) -> str:
        name, parameters = match.group(1), re.sub(r"/\* (\w+) \*/", r"\1", match.group(2))
        type_ = name.removesuffix("Layer_1")
        pointers = ", ".join(f"const_cast<float*>({p})" for p in _POINTERS.findall(parameters))
        sizes = ", ".join(str(d) for a in (*rows[type_].inputs, *rows[type_].want) for d in a.shape)
        arrays = f"void* const p[] = {{{pointers}}};\n    const int64_t n[] = {{{sizes}}};"
        body = f"    {arrays}\n    hand_{type_}(p, n);\n    return true;\n"
        return f"static bool {name}_kernel({parameters}) {{\n{body}}}\n"

    text, count = _KERNEL.subn(by_hand, source.read_text())
    if count != len(rows):
        raise SystemExit(f"{target}: {count} of {len(rows)} kernels were found")
    source.write_text(text.replace("namespace {", f"{declared}\nnamespace {{", 1))
    (folder / "loops" / "loops.cpp").write_text(HAND.read_text())
    return folder / "generated", folder / "loops"


def _sources(project: Path) -> list[str]:
    return [str(p) for p in (project / "layers.cpp", project / "loops.cpp") if p.exists()]


_ENTRIES = r"""
namespace { std::vector<cv::dnn::Net> own; }

extern "C" {

void forward_case(int i) {
    std::vector<std::vector<cv::Mat>> results;
    nets[i].forward(results, std::vector<cv::String>(1, "layer"));
}

// Reads an ONNX model of one input and one output, runs it, and copies its output. Returns whether this succeeds.
int read_own(const char* path, float* x, const int* shape, float* y, int64_t count) {
    try {
        cv::dnn::Net net = cv::dnn::readNetFromONNX(path);
        net.setInput(cv::Mat(4, shape, CV_32F, x));
        const cv::Mat found = net.forward();
        if (int64_t(found.total()) != count) return 0;
        std::copy(found.ptr<float>(), found.ptr<float>() + count, y);
        own.push_back(net);
        return 1;
    } catch (const cv::Exception&) {
        return 0;
    }
}

void forward_own(int i) { own[i].forward(); }

}  // extern "C"
"""


def opencv(rows: Mapping[str, Row], folder: Path) -> None:
    """Add the calls in OpenCV: the test of the project becomes a library that keeps its networks."""
    libraries = []
    for project in projects("opencv", rows, folder):
        text = (project / "test_layers.cpp").read_text()
        text = text.replace("namespace {", "static std::vector<cv::dnn::Net> nets;\n\nnamespace {", 1)
        text = text.replace("int main(int count", 'extern "C" int prepare(int count')
        run = "    net.forward(results, "
        text = text.replace(run, f"    cv::setNumThreads(1);\n    nets.push_back(net);\n{run}", 1)
        (project / "test_layers.cpp").write_text(text + _ENTRIES)
        packages = subprocess.run(["pkg-config", "--cflags", "--libs", "opencv4"], check=True, capture_output=True)
        words = ["g++", "-std=c++11", *_FLAGS, *_sources(project), str(project / "test_layers.cpp")]
        library = str(project / "layers.so")
        subprocess.run([*words, "-o", library, *packages.stdout.decode().split()], check=True)
        libraries.append(ctypes.CDLL(library))
    _own_opencv(
        libraries[0], rows, folder
    )  # first, because the generated layers replace OpenCV's of the same names
    for kind, library, name in zip(("generated", "loops"), libraries, ("generated", "loops")):
        data = (ctypes.c_char_p * 2)(b"", str(folder / name / "test_data.bin").encode())
        if library.prepare(2, data):
            raise SystemExit("a layer differs from NumPy in OpenCV")
        for i, row in enumerate(rows.values()):
            row.calls[kind] = lambda library=library, i=i: library.forward_case(i)


def _own_opencv(library: Any, rows: Mapping[str, Row], folder: Path) -> None:
    library.read_own.argtypes = [ctypes.c_char_p, *[ctypes.c_void_p] * 3, ctypes.c_int64]
    count = 0
    for name, row in rows.items():
        model = own_model(name, row.want, folder)
        if model is None or len(model[1]) != 1:
            continue
        (x,), y = model[1], row.empty()[0]
        shape = (ctypes.c_int * 4)(*x.shape)
        if library.read_own(model[0].encode(), x.ctypes.data, shape, y.ctypes.data, y.size):
            row.add("own", lambda i=count: library.forward_own(i), lambda y=y: [y])
            count += 1


def opencv_python(rows: Mapping[str, Row], folder: Path) -> dict[str, dict[str, float]]:
    """Return the times in OpenCV 4, which runs in the environment of the peers."""
    import onnx

    python = peers(os.environ.get("ANYLAYER_PEERS"))
    if python is None:
        raise SystemExit("opencv-python needs OpenCV 4: python -m benchmarks --make-peers")
    net, given = network(rows)
    net.generate("opencv-python", folder / "project", inputs=given, test=False)
    cases = []
    for i, (name, row) in enumerate(rows.items()):
        model = onnx.load(folder / "project" / f"case_{i}.onnx")
        model.graph.node[0].domain = model.opset_import[1].domain = "plain"
        onnx.save(model, folder / f"plain_{i}.onnx")
        own = own_model(name, row.want, folder)
        node = row.layer.node
        cases.append(
            {
                "type": name,
                "params": opencv_params(node.params, node.defaults),
                "blobs": [b.tolist() for b in node.blobs],
                "inputs": len(row.inputs),
                "outputs": len(row.want),
                "own": [f"x{k or ''}" for k in range(len(own[1]))] if own else [],
            }
        )
    (folder / "cases.json").write_text(json.dumps(cases))
    path = os.pathsep.join(map(str, (Path(__file__).parent.parent, Path(anylayer.__file__).parent.parent)))
    words = [python, "-B", "-m", "benchmarks.runners.opencv_layers", str(folder)]
    environment = {**os.environ, "PYTHONPATH": path}
    done = subprocess.run(words, env=environment, check=True, stdout=subprocess.PIPE, text=True, timeout=_LIMIT)
    return _found(done.stdout)


def onnxruntime(rows: Mapping[str, Row], folder: Path) -> None:
    """Add the calls in ONNX Runtime, with inputs and outputs bound to arrays."""
    import onnx

    for kind, project in zip(("generated", "loops"), projects("onnxruntime", rows, folder)):
        library = str(project / "layers.so")
        subprocess.run(["g++", "-std=c++17", *_FLAGS, *_sources(project), "-o", library], check=True)
        whole = onnx.load(project / "model.onnx")
        for node in whole.graph.node:
            row = rows[node.op_type]
            _add_session(row, kind, _alone(whole, node), row.inputs, library)
    for name, row in rows.items():
        model = own_model(name, row.want, folder)
        if model is not None:
            _add_session(row, "own", *model)


def _alone(whole: Any, node: Any) -> bytes:
    """Return a model of one node of a model."""
    import onnx

    graph = whole.graph
    inputs = [v for v in graph.input if v.name in node.input]
    inputs.sort(key=lambda v: list(node.input).index(v.name))
    outputs = [v for name in node.output for v in graph.output if v.name == name]
    constants = [c for c in graph.initializer if c.name in node.input]
    made = onnx.helper.make_graph([node], "one", inputs, outputs, constants)
    model = onnx.helper.make_model(made, opset_imports=whole.opset_import, ir_version=whole.ir_version)
    return bytes(model.SerializeToString())


def _add_session(row: Row, kind: str, model: str | bytes, inputs: Sequence[Array], library: str = "") -> None:
    import onnxruntime as ort

    options = ort.SessionOptions()
    options.intra_op_num_threads = 1
    if library:
        options.register_custom_ops_library(library)
    session = ort.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    binding, made = session.io_binding(), row.empty()
    for value, x in zip(session.get_inputs(), inputs, strict=True):
        binding.bind_cpu_input(value.name, x)
    for value, y in zip(session.get_outputs(), made, strict=True):
        binding.bind_output(value.name, "cpu", 0, np.float32, y.shape, y.ctypes.data)
    row.add(kind, lambda: session.run_with_iobinding(binding), lambda: made)


def openvino(rows: Mapping[str, Row], folder: Path) -> None:
    """Add the calls in OpenVINO, with inputs and outputs bound to arrays."""
    import openvino as ov

    for kind, project in zip(("generated", "loops"), projects("openvino", rows, folder)):
        cmake = project / "CMakeLists.txt"
        text = cmake.read_text().replace('no other" OFF)', 'no other" ON)')
        sources = " ".join(Path(path).name for path in _sources(project))
        cmake.write_text(text.replace("MODULE layers.cpp)", f"MODULE {sources})"))
        subprocess.run(
            [sys.executable, "-B", "test_model.py", "build"], cwd=project, check=True, capture_output=True
        )
        core = ov.Core()
        core.add_extension(str(next((project / "build").rglob("liblayers.so"))))
        whole = core.read_model(project / "model.xml")
        results: dict[str, dict[int, Any]] = {}
        for result in whole.get_results():
            port = result.input_value(0)
            while port.get_node().get_type_name() not in rows:  # an Identity, which gives the output its name
                port = port.get_node().input_value(0)
            results.setdefault(port.get_node().get_type_name(), {})[port.get_index()] = result, port.get_node()
        for name, row in rows.items():
            ends = [end for _, (end, _) in sorted(results[name].items())]
            node = results[name][0][1]
            given = [node.input_value(i).get_node() for i in range(len(row.inputs))]
            _add_request(row, kind, core, ov.Model(ends, given, name), row.inputs)
    core = ov.Core()
    for name, row in rows.items():
        model = own_model(name, row.want, folder)
        if model is not None:
            _add_request(row, "own", core, core.read_model(model[0]), model[1])


def _add_request(row: Row, kind: str, core: Any, model: Any, inputs: Sequence[Array]) -> None:
    import openvino as ov

    settings = {"INFERENCE_PRECISION_HINT": "f32", "INFERENCE_NUM_THREADS": 1}
    compiled = core.compile_model(model, "CPU", settings)
    request, made = compiled.create_infer_request(), row.empty()
    row.kept += [core, model]  # they hold the library
    for port, x in zip(compiled.inputs, inputs, strict=True):
        request.set_tensor(port, ov.Tensor(x, shared_memory=True))
    for port, y in zip(compiled.outputs, made, strict=True):
        request.set_tensor(port, ov.Tensor(y, shared_memory=True))
    row.add(kind, lambda: request.infer(), lambda: made)


def opencl(rows: Mapping[str, Row], folder: Path) -> None:
    """Add the kernels of OpenVINO's project, and those written by hand, on a device of OpenCL."""
    net, given = network(rows)
    net.generate("openvino", folder / "project", inputs=given, test=False)
    hand = folder / "project" / "loops.xml"
    hand.write_text("\n".join(_configuration(name, row) for name, row in rows.items()))
    (folder / "project" / "loops.cl").write_text((HAND.parent / "loops.cl").read_text())
    for kind, xml in (("generated", folder / "project" / "kernels.xml"), ("loops", hand)):
        kernels = anylayer.OpenCL([str(xml)], user_file=False)
        model = anylayer.read(folder / "project" / "model.xml", kernels=kernels).compile("openvino")
        assert model.plan is not None
        steps = [step.kernel for step in model.plan.steps if isinstance(step, KernelStep)]
        for layer in steps:
            assert isinstance(layer, OpenCLLayer)
            _add_kernel(rows[layer.node.type], kind, layer)


def _configuration(name: str, row: Row) -> str:
    """Return the element of a kernel of native/loops.cl."""
    counts = [("input", len(row.inputs)), ("output", len(row.want))]
    ports = [(kind, i) for kind, count in counts for i in range(count)]
    tensors = "".join(
        f'<Tensor arg-index="{at}" type="{kind}" port-index="{i}" format="BFYX"/>'
        for at, (kind, i) in enumerate(ports)
    )
    work, dim = _WORK.get(name, ("X,Y,B*F", ""))
    return (
        f'<CustomLayer name="{name}" type="SimpleGPU" version="1"><Kernel entry="hand">'
        f'<Source filename="loops.cl"/><Define name="HAND_{name}"/></Kernel><Buffers>{tensors}</Buffers>'
        f'<WorkSizes global="{work}"{dim}/>'
        "</CustomLayer>"
    )


def _add_kernel(row: Row, kind: str, layer: OpenCLLayer) -> None:
    program = layer.program()

    def call() -> float:
        program(row.inputs)
        return program.device_seconds

    row.add(kind, call, lambda: program(row.inputs))


def pytorch(rows: Mapping[str, Row], folder: Path) -> None:
    """Add the generated torch functions, and those written by hand."""
    import torch

    torch.set_num_threads(1)
    functions = torch_functions()
    for name, row in rows.items():
        net, given = network({name: row})
        net.generate("pytorch", folder / name, inputs=given, test=False)
        spec = importlib.util.spec_from_file_location(f"model_{name}", folder / name / "model.py")
        assert spec is not None and spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        _add_function(row, "generated", module.load())
        if name in functions:
            _add_function(row, "own", functions[name])


def _add_function(row: Row, kind: str, function: Callable[..., Any]) -> None:
    import torch

    tensors = [torch.from_numpy(x) for x in row.inputs]

    def call() -> list[Any]:
        with torch.inference_mode():
            found = function(*tensors)
            return [y.contiguous() for y in (found if isinstance(found, tuple) else (found,))]

    row.add(kind, call)


def measured(target: str, names: Sequence[str], folder: Path) -> dict[str, dict[str, float]]:
    """Return the milliseconds of each call of each row of a target."""
    rows = rows_of(names, folder)
    if target == "opencv-python":
        return opencv_python(rows, folder)
    globals()[target](rows, folder)
    return {name: shortest(row.calls) for name, row in rows.items()}


def _found(printed: str) -> dict[str, dict[str, float]]:
    """Return the figures that a process printed among other lines."""
    return dict(json.loads(next(line for line in printed.splitlines() if line.startswith("{"))))


def in_a_process(target: str, names: Sequence[str]) -> dict[str, dict[str, float]]:
    """Return `measured`, computed in a process of its own with one thread."""
    one = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "POCL_MAX_PTHREAD_COUNT"), "1")
    words = [sys.executable, "-B", "-m", "benchmarks.targets", "--measure", target]
    words += [word for name in names for word in ("--only", name)]
    done = subprocess.run(words, env={**os.environ, **one}, check=True, stdout=subprocess.PIPE, text=True)
    return _found(done.stdout)


def table_of(target: str, found: Mapping[str, Mapping[str, float]]) -> Iterator[str]:
    """Yield the lines of the table of a target."""
    second = "class alone" if target == "opencv-python" else "loops by hand"
    yield f"| {TARGETS[target]} | NumPy | generated | {second} | own operators | NumPy / generated | ratio |"
    yield "|---|" + "---:|" * 6
    for name, times in found.items():
        kinds = KINDS[2:3] if target == "opencv-python" else KINDS[2:]
        best = min((times[kind] for kind in kinds if kind in times), default=0.0)
        cells = [f"{times[kind]:.3f}" if kind in times else "-" for kind in KINDS]
        ratio = f"{times['generated'] / best:.2f}" if best else "-"
        yield f"| {name} | {' | '.join(cells)} | {times['NumPy'] / times['generated']:.1f} | {ratio} |"


def main() -> None:
    """Print the tables, or write them to docs/generate-measured.md."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.targets", description=__doc__)
    parser.add_argument("--only", action="append", default=[], help="the name of a row; may be repeated")
    parser.add_argument("--target", action="append", default=[], choices=TARGETS, help="may be repeated")
    parser.add_argument("--docs", action="store_true", help="write the tables to docs/generate-measured.md")
    parser.add_argument("--measure", choices=TARGETS, help=argparse.SUPPRESS)
    options = parser.parse_args()
    names = [name for name in LAYERS if not options.only or name in options.only]
    if options.measure:
        with TemporaryDirectory() as folder:
            print(json.dumps(measured(options.measure, names, Path(folder))))
        return
    lines: list[str] = []
    for target in options.target or TARGETS:
        table = list(table_of(target, in_a_process(target, names)))
        print("\n".join([*table, ""]), flush=True)
        lines += [*table, ""]
    if options.docs:
        before, rest = PAGE.read_text("utf-8").split(START)
        PAGE.write_text("\n".join([before + START, *lines, END + rest.split(END, 1)[1]]), "utf-8")


if __name__ == "__main__":
    main()
