"""Networks of formats in which every name may be any text: ONNX, Keras, TensorFlow and OpenVINO.

The names of the network, its file, nodes, types, values and params are attacks. The code of each target compiles,
and contains none of them.
"""

from __future__ import annotations

import ast
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from anylayer.api import Net
from anylayer.convert.generation import Generation
from anylayer.generators import targets
from anylayer.layer import load_layers
from anylayer.network import Network, Node, TensorType
from tests.generators.test_names import ATTACKS

TEXTS = [a.read_bytes().decode() for a in ATTACKS if a.stem != "similar_too"]
FORMATS = {"onnx": "attribute", "keras": "config", "tensorflow": "attr", "openvino": "data"}


class Mine:
    """Add 1."""

    def __init__(self, params: Any, blobs: Any) -> None:
        pass

    def forward(self, inputs: Any) -> Any:
        return [inputs[0] + 1]


def attacked(folder: Path, fmt: str, target: str) -> Generation:
    """Generate the project of a chain of layers, one per attack. The first has params of all attacks, the others
    of two: each param is traced by itself, so all params of all layers would take ten times as long.
    """
    nodes, before = [], "data\n"
    for i, text in enumerate(TEXTS):
        attacks = list(enumerate(TEXTS))[i - 1 : i + 1] or enumerate(TEXTS)
        params = {f"{other}{j}": other if j % 2 else float(j) for j, other in attacks} | {"NAN": 1, "EOF": 2}
        layout = "NHWC" if fmt in ("keras", "tensorflow") and target != "opencv-python" else ""  # OpenCV has NCHW
        nodes.append(
            Node(f"{text}{i}", f"{text}{i}", [before], [f"{text} out"], {FORMATS[fmt]: params}, layout=layout)
        )
        before = f"{text} out"
    kind = TensorType.of((1, 2, 2, 8))
    file = f"dir/{TEXTS[4]}/{TEXTS[-1]}"
    network = Network(TEXTS[7], fmt, {"data\n": kind}, nodes, {"?>*/\n": before}, source=file)
    types = load_layers([(node.type, Mine) for node in nodes])
    return Net(network, types).generate(target, folder / "project", test=False)


@pytest.mark.one_per("target")
@pytest.mark.parametrize("fmt", FORMATS)
@pytest.mark.parametrize("target", targets())
def test_names_of_any_format_do_not_become_code(fmt: str, target: str, tmp_path: Path) -> None:
    done = attacked(tmp_path, fmt, target)
    folder = done.folder
    for file in done.files:
        assert re.fullmatch(r"[A-Za-z0-9_./]+", file.relative_to(folder).as_posix())
        if file.suffix == ".py":
            names = {n.id for n in ast.walk(ast.parse(file.read_text("utf-8"))) if isinstance(n, ast.Name)}
            assert not names & {"system", "pwned"}
        elif file.suffix in (".cpp", ".hpp", ".h", ".cl", ".txt"):
            code = re.sub(
                r'//[^\n]*|/\*.*?\*/|#[^\n]*|"(\\[0-7]{3}|\\n|[^"\\\n])*"', "", file.read_text("utf-8"), flags=re.S
            )
            assert not re.search(r"\b(system|pwned|CMAKE_COMMAND|SHELL_PATH|ENV)\b", code), file.name
    includes = {"dv": "-Ihost", "onnxruntime": "-I."}
    if target in includes and shutil.which("c++"):
        sources = [f.name for f in done.files if f.suffix == ".cpp" and f.parent == folder]
        command = ["c++", "-std=c++11" if target == "dv" else "-std=c++17", "-fsyntax-only", "-Wall", "-Werror"]
        for source in sources:
            subprocess.run([*command, "-Wno-unused-function", includes[target], source], cwd=folder, check=True)
    assert not list(tmp_path.rglob("pwned"))
