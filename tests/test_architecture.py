"""The rules of docs/architecture.md, held: who may import whom, what `import anylayer` loads, sizes, names."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import anylayer
from anylayer.layer import Registry

ROOT = Path(__file__).parent.parent
SRC = ROOT / "src" / "anylayer"
FILES = sorted(SRC.rglob("*.py"))
FORMATS = sorted(p.name for p in (SRC / "layers").iterdir() if (p / "__init__.py").exists())

_CORE = ["errors", "folders", "network", "numerics", "graph", "tracing", "ops", "layer"]
_FILES = {*_CORE, "libraries", "optimize", "corrections", "source"}
_RUN = {*_FILES, "readers", "writers", "generators", "kernels", "compile", "engines", "runtime"}
MAY_IMPORT = {
    **{room: set(_CORE[:i]) for i, room in enumerate(_CORE)},
    "libraries": {"errors", "folders", "network"},
    "layers": {*_CORE, "libraries"},
    "optimize": set(_CORE[:-1]),
    "corrections": {*_CORE[:-1], "optimize"},
    "source": set(_CORE),
    **dict.fromkeys(("readers", "writers", "generators", "kernels"), _FILES),
    "compile": _FILES,
    "engines": {*_FILES, "compile", "writers", "generators", "kernels"},
    "runtime": {*_FILES, "compile", "engines"},
    "convert": _RUN,
    "inspect": _RUN,
    "api": {*_RUN, "convert", "inspect"},
    "export": {*_RUN, "convert", "inspect", "api"},
    "testing": {*_RUN, "api"},
    "caffe": {*_RUN, "convert", "inspect", "api"},
    "compat": {*_RUN, "convert", "inspect", "api"},
    "cli": {*_RUN, "convert", "inspect", "api", "testing"},
}
"""Room -> the rooms its files may import, besides itself: imports go down only."""

HEAVY = ["cv2", "google", "onnx", "onnxruntime", "openvino", "ncnn", "pyfive", "PIL"]
"""Packages that exactly one file imports."""

FACES = ["click", "rich"]
"""Packages of the command line; nothing below it imports them."""


def room(path: Path) -> str:
    """The room a source file belongs to: its folder, or its own name."""
    return path.relative_to(SRC).parts[0].removesuffix(".py")


def imports(path: Path) -> Iterator[tuple[str, int]]:
    """Every module a file imports when it runs, anywhere in it, with its line."""
    tree = ast.parse(path.read_text())
    for node in ast.walk(tree):
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            node.body.clear()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((alias.name, node.lineno) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}:{node.lineno}: imports are absolute"
            yield from ((f"{node.module}.{alias.name}", node.lineno) for alias in node.names)


def own_imports(path: Path) -> Iterator[tuple[list[str], int]]:
    """The parts below `anylayer` of what a file imports of the package itself."""
    for name, line in imports(path):
        parts = name.split(".")
        if parts[0] == "anylayer":
            yield parts[1:], line


@pytest.mark.parametrize(
    "path", [p for p in FILES if p != SRC / "__init__.py"], ids=lambda p: str(p.relative_to(SRC))
)
def test_imports_go_down_only(path: Path) -> None:
    here = room(path)
    assert here in MAY_IMPORT, f"{here} is no room of docs/architecture.md"
    wrong = [
        f"line {line}: {here} imports {parts[0]}"
        for parts, line in own_imports(path)
        if parts and parts[0] in MAY_IMPORT and parts[0] != here and parts[0] not in MAY_IMPORT[here]
    ]
    assert not wrong


def test_formats_do_not_know_each_other() -> None:
    wrong = []
    for kind in ["readers", "layers"]:
        for path in (SRC / kind).rglob("*.py"):
            inside = path.relative_to(SRC).parts[1].removesuffix(".py")
            for parts, line in own_imports(path):
                other = parts[1] if len(parts) > 2 and parts[0] == kind else inside
                if other != inside and not other.startswith("_") and inside != "__init__":
                    wrong.append(f"{path.relative_to(SRC)}:{line} imports {'.'.join(parts)}")
    assert not wrong


@pytest.mark.parametrize("package", HEAVY)
def test_a_heavy_package_is_imported_in_one_file(package: str) -> None:
    users = {str(p.relative_to(SRC)) for p in FILES for name, _ in imports(p) if name.split(".")[0] == package}
    assert len(users) <= 1, users


def test_only_the_command_line_draws() -> None:
    users = {room(p) for p in FILES for name, _ in imports(p) if name.split(".")[0] in FACES}
    assert users <= {"cli"}


def test_import_anylayer_loads_numpy_and_nothing_heavier() -> None:
    code = f"import sys, anylayer; print([m for m in {HEAVY + FACES} if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_telling_a_format_loads_nothing_heavy() -> None:
    code = (
        "import sys, pathlib\nfrom anylayer.api import _reader_of\n"
        "try: _reader_of(pathlib.Path('.'))\nexcept Exception: pass\n"
        f"print([m for m in {HEAVY + FACES} if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_import_anylayer_imports_no_layer() -> None:
    code = "import sys, anylayer; print([m for m in sys.modules if m.startswith('anylayer.layers.')])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize("path", FILES, ids=lambda p: str(p.relative_to(SRC)))
def test_files_are_short_and_hold_no_assert(path: Path) -> None:
    text = path.read_text()
    assert text.count("\n") <= 500
    assert not [node.lineno for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Assert)]


def layer_types() -> set[str]:
    """Every built-in layer type of every format but ONNX, whose types are the operators of our graphs."""
    return {name for fmt in FORMATS if fmt != "onnx" for name in Registry.of(fmt).types()}


ONNX_VOCABULARY = ["tracing", "ops", "writers"]
"""Rooms that speak of ONNX operators, some of which share a name with a layer type."""

NAMES_TYPES = {
    "readers/caffe/upgrade.py": "V0 and V1 files spell layer types as words and enums of the format",
    "readers/openvino/legacy_types.py": "2018's IR spells Caffe's layers, and the reader says which they are",
    "readers/openvino/legacy_windows.py": "the same, for convolutions and pools",
    "inspect/report.py": "ONNX operators of a graph, whose multiply-adds are counted",
    "readers/tensorflow/structure.py": "a GraphDef spells inputs, constants, calls and control flow as operations",
    "readers/tensorflow/factors.py": "the sub-graphs that OpenCV hands to a custom layer as blobs",
    "caffe/transfer.py": "which of Keras' layers has its weights in which of Caffe's",
    "engines/openvino.py": "operations of the model that OpenVINO has read, two of which get an attribute",
}
"""Files elsewhere that name layer types, with the reason."""


def literals(path: Path) -> Iterator[tuple[str, int]]:
    """The string constants of a file, docstrings excepted."""
    tree = ast.parse(path.read_text())
    docs = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docs:
            yield node.value, node.lineno


def test_nothing_outside_layers_names_a_layer_type() -> None:
    types, operators = layer_types() - {"Layer"}, set(Registry.of("onnx").types())  # Keras' base class, and ours
    wrong = {}
    for path in FILES:
        where = path.relative_to(SRC).as_posix()
        if room(path) not in ["layers", *ONNX_VOCABULARY] and where not in NAMES_TYPES:
            meant = types if room(path) == "readers" else types - operators  # an engine speaks of a graph's
            named = [f"{text} (line {line})" for text, line in literals(path) if text in meant]
            if named:
                wrong[where] = named
    assert not wrong


@pytest.mark.parametrize("fmt", FORMATS)
def test_every_layer_has_a_test_file(fmt: str) -> None:
    files = {p.stem for p in (SRC / "layers" / fmt).glob("[!_]*.py")}
    tests = {p.stem.removeprefix("test_") for p in (ROOT / "tests" / "layers" / fmt).glob("test_*.py")}
    assert not files - tests


def test_every_operator_is_listed_and_tested() -> None:
    assert {p.stem for p in (SRC / "ops").glob("[!_]*.py")} <= set(anylayer.ops.__all__)
    tests = "".join(p.read_text() for p in (ROOT / "tests" / "ops").glob("test_*.py"))
    assert not [name for name in anylayer.ops.__all__ if not re.search(rf"\b{name}\b", tests)]


@pytest.mark.parametrize("fmt", FORMATS)
def test_every_layer_says_what_it_is(fmt: str) -> None:
    silent = [d.type for d in Registry.of(fmt).definitions() if not d.summary]
    assert not silent


def test_the_public_names() -> None:
    assert len(anylayer.__all__) <= 15
    assert all((getattr(anylayer, name).__doc__ or "").strip() for name in anylayer.__all__)
