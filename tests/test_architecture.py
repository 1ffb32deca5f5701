"""Check the rules of docs/architecture.md: allowed imports, what `import anylayer` loads, sizes, names.

Each file is parsed once; each rule is one test, which lists every file and line that breaks it.
"""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

import pytest

import anylayer
from anylayer.engines import engines
from anylayer.layer import Registry

ROOT = Path(__file__).parent.parent
SRC = ROOT / "src" / "anylayer"
FILES = sorted(SRC.rglob("*.py"))
FORMATS = sorted(p.name for p in (SRC / "layers").iterdir() if (p / "__init__.py").exists())

_CORE = ["errors", "folders", "network", "numerics", "graph", "tracing", "ops", "layer"]
_FILES = {*_CORE, "libraries", "protobuf", "optimize", "corrections", "source"}
_LOWERED = {*_FILES, "loops"}
_RUN = {*_LOWERED, "readers", "writers", "generators", "kernels", "compile", "engines", "runtime"}
MAY_IMPORT = {
    **{room: set(_CORE[:i]) for i, room in enumerate(_CORE)},
    "libraries": {"errors", "folders", "network"},
    "layers": {*_CORE, "libraries"},
    "protobuf": set(_CORE),
    "optimize": set(_CORE[:-1]),
    "corrections": {*_CORE[:-1], "optimize", "libraries"},
    "source": set(_CORE),
    "loops": {*_CORE, "optimize"},
    **dict.fromkeys(("readers", "writers", "kernels"), _FILES),
    "generators": {*_LOWERED, "writers"},
    "compile": _FILES,
    "engines": {*_LOWERED, "compile", "writers", "generators", "kernels"},
    "runtime": {*_LOWERED, "compile", "engines"},
    "convert": _RUN,
    "inspect": _RUN,
    "api": {*_RUN, "convert", "inspect", "function_nodes"},
    "function_nodes": {*_CORE, "compile"},
    "export": {*_RUN, "convert", "inspect", "function_nodes", "api"},
    "identify": {"inspect", "api"},
    "diff": {"inspect", "api"},
    "write_weights": {*_RUN, "convert", "api"},
    "testing": {*_RUN, "api"},
    "images": {"errors", "folders", "network", "graph", "tracing", "ops", "libraries"},
    "caffe": {*_RUN, "convert", "inspect", "images", "api"},
    "opencv": {*_RUN, "convert", "inspect", "images", "api"},
    "ray": {*_RUN, "convert", "inspect", "api"},
    "serve": {*_RUN, "convert", "inspect", "api", "ray"},
    "__main__": {"cli"},
    "cli": {*_RUN, "convert", "inspect", "images", "api", "testing", "ray", "serve"},
}
"""Room -> the rooms its files may import, besides itself: imports go down only."""

HEAVY = ["cv2", "google", "onnx", "onnxruntime", "openvino", "ncnn", "pyfive", "PIL"]
HEAVY += [
    "av",
    "netron",
    "h5py",
    "pyopencl",
    "safetensors",
    "torch",
    "ray",
    "starlette",
    "uvicorn",
    "pyarrow",
    "tensorrt",
    "cuda",
]
"""Packages that exactly one file imports."""

FACES = ["click", "rich"]
"""Packages that only the command line imports."""


Lines = list[tuple[str, int]]


@dataclass(slots=True)
class File:
    """What the rules need to know of a source file; each name and text has its line.

    `imports` are the modules that the file imports when it runs; `late` are those of them that it imports in
    functions. `classes` are the names of its classes, `literals` its string constants without docstrings.
    `relative` and `asserts` are lines of relative imports and assert statements.
    """

    path: Path
    imports: Lines = field(default_factory=list)
    late: Lines = field(default_factory=list)
    literals: Lines = field(default_factory=list)
    relative: list[int] = field(default_factory=list)
    asserts: list[int] = field(default_factory=list)
    classes: list[str] = field(default_factory=list)
    length: int = 0

    @property
    def where(self) -> str:
        return self.path.relative_to(SRC).as_posix()

    @property
    def room(self) -> str:
        """The room that the file belongs to: its folder, or its own name."""
        return self.path.relative_to(SRC).parts[0].removesuffix(".py")

    @property
    def own_imports(self) -> Iterator[tuple[list[str], int]]:
        """The imports of anylayer itself: the parts of each name after "anylayer", and the line."""
        for name, line in self.imports:
            parts = name.split(".")
            if parts[0] == "anylayer":
                yield parts[1:], line

    def visit(self, node: ast.AST) -> None:
        """Collect from a node and those below it, except the body of `if TYPE_CHECKING`."""
        match node:
            case ast.If(test=ast.Name("TYPE_CHECKING")):
                for below in node.orelse:
                    self.visit(below)
                return
            case ast.Import():
                self.imports += [(alias.name, node.lineno) for alias in node.names]
            case ast.ImportFrom():
                self.imports += [(f"{node.module}.{alias.name}", node.lineno) for alias in node.names]
                self.relative += [node.lineno] * bool(node.level)
            case ast.FunctionDef():
                count = len(self.imports)
                for below in ast.iter_child_nodes(node):
                    self.visit(below)
                self.late += self.imports[count:]
                return
            case ast.Expr(value=ast.Constant()):
                return
            case ast.Constant(value=str(text)):
                self.literals.append((text, node.lineno))
            case ast.ClassDef():
                self.classes.append(node.name)
            case ast.Assert():
                self.asserts.append(node.lineno)
        for below in ast.iter_child_nodes(node):
            self.visit(below)


@cache
def parsed(path: Path) -> File:
    """Return what the rules need to know of a file; it is parsed once."""
    text = path.read_text("utf-8")
    file = File(path, length=text.count("\n"))
    file.visit(ast.parse(text))
    return file


@pytest.fixture(scope="module")
def files() -> list[File]:
    return [parsed(path) for path in FILES]


def test_imports_go_down_only(files: list[File]) -> None:
    below = [file for file in files if file.where != "__init__.py"]
    assert not {file.room for file in below} - {*MAY_IMPORT}, "rooms that docs/architecture.md does not have"
    wrong = [
        f"{file.where}:{line}: {file.room} imports {parts[0]}"
        for file in below
        for parts, line in file.own_imports
        if parts and parts[0] in MAY_IMPORT and parts[0] not in {file.room, *MAY_IMPORT[file.room]}
    ]
    assert not wrong


def test_architecture_page_lists_the_rooms() -> None:
    page = (ROOT / "docs" / "architecture.md").read_text("utf-8")
    section = page.split("## Code map\n")[1].split("\n## ")[0]
    assert len(section.splitlines()) <= 40, "a newcomer reads the code map first"
    block = section.split("src/anylayer/")[1]
    names = " ".join(line[:24] for line in block.splitlines() if line.startswith(" " * 6))
    listed = re.findall(r"(\w+)(?:/|\.py) ", names)
    parts = {p.name.removesuffix(".py") for p in SRC.iterdir() if not p.name.startswith(("_", "."))}
    assert {*listed} == parts - {"py.typed"} and len(listed) == len({*listed})


def test_imports_are_absolute(files: list[File]) -> None:
    assert not [f"{file.where}:{line}" for file in files for line in file.relative]


def test_formats_do_not_import_each_other(files: list[File]) -> None:
    wrong = []
    for file in files:
        if file.room not in ("readers", "layers"):
            continue
        inside = file.path.relative_to(SRC).parts[1].removesuffix(".py")
        for parts, line in file.own_imports:
            other = parts[1] if len(parts) > 2 and parts[0] == file.room else inside
            if other != inside and not other.startswith("_") and inside != "__init__":
                wrong.append(f"{file.where}:{line} imports {'.'.join(parts)}")
    assert not wrong


PRIVATE = {"tracing", "graph"}
"""Rooms below `ops` and `layer`, which a user's layer need not know either."""
STATES = {"is_traced", "is_symbolic", "is_static", "holds_symbolic", "symbolic_shape"}
"""Questions whose answer depends on whether a layer is called with arrays or traced."""

PRIVILEGED = {
    "layers/onnx/_record.py",  # records operators for which `ops` has no function, by ONNX's own shape inference
    "layers/_control.py",  # runs the networks inside an operator, or records them
}
"""Files of layers that have private powers, with the reason. The list only becomes shorter."""


def test_built_in_layers_have_no_private_powers(files: list[File]) -> None:
    """A layer imports `ops` and `layer`, and does not ask whether it is traced: a user's layer can do the same."""
    privileged = {
        file.where
        for file in files
        if file.room == "layers"
        for parts, _ in file.own_imports
        if parts[0] in PRIVATE or parts[-1] in STATES
    }
    assert privileged == PRIVILEGED


@cache
def module(name: str) -> str:
    """Return the module of an imported name: "anylayer.graph.ir" for "anylayer.graph.ir.Op"."""
    parts = name.split(".")
    while len(parts) > 1 and parts[0] == "anylayer" and not path_of(parts):
        parts.pop()
    return ".".join(parts)


def path_of(parts: list[str]) -> Path | None:
    """Return the file of a module of this package, None where there is none."""
    folder = SRC.joinpath(*parts[1:])
    return next((p for p in (folder / "__init__.py", folder.with_suffix(".py")) if p.exists()), None)


@cache
def loaded(name: str) -> frozenset[str]:
    """Return the modules that an import of the module `name` loads, except the package itself, which every module
    loads, and those that functions import."""
    found: set[str] = set()
    waiting = [name]
    while waiting:
        parts = waiting.pop().split(".")
        if ".".join(parts) in found:
            continue
        found.add(".".join(parts))
        waiting += [".".join(parts[:i]) for i in range(2, len(parts))]
        path = path_of(parts) if parts[0] == "anylayer" and len(parts) > 1 else None
        if path is not None:
            file = parsed(path)
            waiting += {module(other) for other, _ in set(file.imports) - set(file.late)}
    return frozenset(found)


def test_files_that_any_engine_suits_name_none(files: list[File]) -> None:
    """They ask the engines what they declare: see Engine, Optional and `general` in engines/__init__.py."""
    neutral = {"api", "compile", "convert", "inspect", "numerics", "ray", "runtime", "serve", "testing"}
    name = re.compile(rf"\b({'|'.join(engines())})\b")
    found = [
        f"{file.where}:{line} {text!r}"
        for file in files
        if file.room in neutral or file.where == "cli/commands/verify.py"
        for text, line in file.literals
        if name.search(text)
    ]
    assert not found


def test_functions_import_only_what_may_be_absent_or_is_not_always_needed(files: list[File]) -> None:
    """A file may import a package of HEAVY or FACES, or a file that loads one, in a function. So may a file that
    `import anylayer` or the --help of a command loads, to load nothing more than it needs, and one that every run
    of a Caffe network loads, to import what only some networks need."""
    commands = [module_of(file) for file in files if file.where.startswith("cli/")]
    start = {
        name
        for command in ["anylayer.api", "anylayer.diff", "anylayer.identify", *commands]
        for name in loaded(command)
    }
    run = {name for part in ("readers.caffe", "engines.onnxruntime") for name in loaded(f"anylayer.{part}")}
    wrong = []
    for file in files:
        own = module_of(file)
        early = {module(name) for name, _ in set(file.imports) - set(file.late)}
        before = {name for other in early for name in loaded(other)}
        for name, line in file.late:
            target = module(name)
            is_heavy = bool({part.split(".")[0] for part in loaded(target)} & {*HEAVY, *FACES})
            saves_time = own in start and own not in loaded(target) and target not in loaded("anylayer.api")
            is_rare = own in run and target not in run
            if not (is_heavy or saves_time or is_rare) or (target in before and target.startswith("anylayer.")):
                wrong.append(f"{file.where}:{line} imports {target}")
    assert not wrong


def module_of(file: File) -> str:
    """Return the name of the module that a file is."""
    return ".".join(["anylayer", *file.path.relative_to(SRC).with_suffix("").parts]).removesuffix(".__init__")


@pytest.mark.parametrize("package", HEAVY)
def test_heavy_package_is_imported_in_one_file(package: str, files: list[File]) -> None:
    users = {file.where for file in files for name, _ in file.imports if name.split(".")[0] == package}
    assert len(users) <= 1, users


def test_only_the_command_line_imports_its_packages(files: list[File]) -> None:
    users = {file.room for file in files for name, _ in file.imports if name.split(".")[0] in FACES}
    assert users <= {"cli"}


def test_import_anylayer_loads_numpy_and_nothing_heavier() -> None:
    code = f"import sys, anylayer; print([m for m in {HEAVY + FACES} if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_finding_the_reader_loads_nothing_heavy() -> None:
    code = (
        "import sys, pathlib\nfrom anylayer.api import _reader_of\n"
        "try: _reader_of(pathlib.Path('.'))\nexcept Exception: pass\n"
        f"print([m for m in {HEAVY + FACES} if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_import_anylayer_does_not_load_the_tracer() -> None:
    code = "import sys, anylayer; print('anylayer.tracing' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


def test_import_anylayer_imports_no_layer() -> None:
    code = "import sys, anylayer; print([m for m in sys.modules if m.startswith('anylayer.layers.')])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_files_are_short(files: list[File]) -> None:
    assert not [f"{file.where} has {file.length} lines" for file in files if file.length > 500]


def test_source_has_no_assert(files: list[File]) -> None:
    assert not [f"{file.where}:{line}" for file in files for line in file.asserts]


OF_WORDS = ("darknet", "mxnet")
"""The formats whose layer types are words. Only their own readers are searched for them."""


def layer_types() -> set[str]:
    """Return the built-in layer types of every format except ONNX, whose types are the operators of graphs, and
    those whose types are words such as "max".
    """
    return {name for fmt in FORMATS if fmt not in ("onnx", *OF_WORDS) for name in Registry.of(fmt).types()}


ONNX_VOCABULARY = ["tracing", "ops", "writers"]
"""Rooms that name ONNX operators, some of which share a name with a layer type."""

NAMES_TYPES = {
    "readers/tflite/schema.py": "tensors with values are layers of a type, for which the file has no operator",
    "readers/mxnet/symbol.py": "arrays with values are layers of a type, which the file gives to inputs, too",
    "readers/caffe/upgrade.py": "V0 and V1 files spell layer types as words and enums of the format",
    "readers/openvino/legacy_types.py": "2018's IR spells Caffe's layers, and the reader says which they are",
    "readers/openvino/legacy_windows.py": "the same, for convolutions and pooling",
    "inspect/report.py": "ONNX operators of a graph, whose multiply-adds are counted",
    "readers/tensorflow/structure.py": "a GraphDef spells inputs, constants, calls and control flow as operations",
    "readers/tensorflow/custom.py": "the sub-graphs that OpenCV hands to a custom layer as blobs",
    "convert/transfer.py": "which of Caffe's layers gets the weights of which of Keras' layers",
    "kernels/opencl/configuration.py": "elements of a configuration file, one of which is called Data",
    "opencv/table.py": "the layers of Caffe whose names, types and weights OpenCV spells in its own way",
    "opencv/models.py": "the layer that a detector must end in",
    "caffe/coord_map.py": "pycaffe's rules say which layers map pixels to pixels, and how",
    "engines/openvino.py": "operations of the model that OpenVINO has read, two of which get an attribute",
    "generators/openvino/__init__.py": "types that an IR spells differently, which operators may not have",
}
"""Other files that name layer types, with the reason."""


def test_only_layers_name_layer_types(files: list[File]) -> None:
    types, operators = layer_types() - {"Layer"}, set(Registry.of("onnx").types())  # Keras' base class, and ours
    wrong = []
    for file in files:
        if file.room in ["layers", *ONNX_VOCABULARY] or file.where in NAMES_TYPES:
            continue
        meant = types if file.room == "readers" else types - operators  # elsewhere, these are a graph's operators
        for fmt in OF_WORDS:
            meant = meant | {*Registry.of(fmt).types()} if file.where.startswith(f"readers/{fmt}/") else meant
        wrong += [f"{file.where}:{line} names {text}" for text, line in file.literals if text in meant]
    assert not wrong


@pytest.mark.parametrize("fmt", [fmt for fmt in FORMATS if fmt != "caffe"])
def test_every_file_of_layers_has_a_test_file(fmt: str) -> None:
    files = {p.stem for p in (SRC / "layers" / fmt).glob("[!_]*.py")}
    tests = {p.stem.removeprefix("test_") for p in (ROOT / "tests" / "layers" / fmt).glob("test_*.py")}
    assert not files - tests


def test_every_layer_of_caffe_is_tested() -> None:
    tests = "".join(p.read_text("utf-8") for p in (ROOT / "tests" / "layers" / "caffe").glob("test_*.py"))
    assert not [name for name in Registry.of("caffe").types() if f'"{name}"' not in tests]


def test_every_operator_is_listed_and_tested() -> None:
    assert {p.stem for p in (SRC / "ops").glob("[!_]*.py")} <= set(anylayer.ops.__all__)
    tests = "".join(p.read_text("utf-8") for p in (ROOT / "tests" / "ops").glob("test_*.py"))
    assert not [name for name in anylayer.ops.__all__ if not re.search(rf"\b{name}\b", tests)]


@pytest.mark.parametrize("fmt", FORMATS)
def test_every_layer_has_a_docstring(fmt: str) -> None:
    silent = [d.type for d in Registry.of(fmt).definitions() if not d.summary]
    assert not silent


SHARED_NAMES = {
    "BlobShape": "the message of Caffe, which a layer reads and a writer writes",
    "VideoReader": "a protocol, and the class of each package that has it",
    "VideoWriter": "a protocol, and the class of each package that has it",
}
"""Names that classes of several files share, with the reason."""


def test_class_names_have_one_meaning(files: list[File]) -> None:
    """Layers have the names of their types, and the interfaces of OpenCV and pycaffe have their names."""
    places: dict[str, set[str]] = {name: set() for file in files for name in file.classes}
    for file in files:
        is_layer = file.room == "layers" and not file.path.name.startswith("_")
        if not is_layer and file.room not in ("caffe", "opencv"):
            for name in file.classes:
                places[name].add(file.where)
    assert not {n: sorted(found) for n, found in places.items() if len(found) > 1 and n not in SHARED_NAMES}


def test_marks_for_tools_have_a_reason() -> None:
    """A reason follows on the line: "# noqa: B009 (not every reader has it)"."""
    marks = re.compile(r"# (type: ignore(?!\[[\w, -]+\]  # \w)|noqa(?!: [A-Z]+\d+ \(\w)).*")
    paths = [p for folder in ("src", "tests", "tools", "benchmarks") for p in (ROOT / folder).rglob("*.py")]
    lines = [(p, i, line) for p in paths for i, line in enumerate(p.read_text("utf-8").splitlines(), 1)]
    assert not [f"{p.relative_to(ROOT)}:{i}" for p, i, line in lines if marks.search(line) and p != Path(__file__)]


def test_public_names_are_few_and_documented() -> None:
    assert len(anylayer.__all__) <= 15
    assert all((getattr(anylayer, name).__doc__ or "").strip() for name in anylayer.__all__)
