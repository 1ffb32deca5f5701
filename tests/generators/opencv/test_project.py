"""The OpenCV project of a network: the layers run in OpenCV, what they refuse, and names that are attacks."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Collection
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import anylayer
from anylayer.api import Net
from anylayer.convert.generation import Generation
from anylayer.errors import InputError, LayerError
from anylayer.generators import opencv
from anylayer.generators._cpp import KEYWORDS, line_comment, string
from anylayer.layer import load_layers
from anylayer.network import Array, Network, Node, TensorType
from tests.generators.conftest import Attacked
from tests.generators.pytorch.test_examples import RUNS
from tests.generators.pytorch.test_project import quoted
from tests.generators.test_names import ATTACKS
from tests.test_examples_layers import FOLDER, node_of

MISSING = opencv._missing() or ("" if shutil.which("pkg-config") else "pkg-config")
needs_opencv = pytest.mark.skipif(bool(MISSING), reason=f"the test needs tools that are not installed: {MISSING}")

NET = """
layer { name: "data" type: "Input" top: "data" input_param { shape { dim: 1 dim: 2 dim: 4 dim: 6 } } }
layer { name: "mine" type: "Mine" bottom: "data" top: "mine" mine_param { PARAMS } }
"""


class Mine:
    """Add a number, and mirror the rows."""

    def __init__(self, params: Any, blobs: Any) -> None:
        self.add = np.float32(params.get("add", 0))

    def forward(self, inputs: Any) -> Any:
        return [inputs[0][:, :, ::-1] + self.add]


class Flat(Mine):
    """Return one axis."""

    def forward(self, inputs: Any) -> Any:
        return [inputs[0].reshape(-1)]


class Recurrent(Mine):
    """Use an operator without loops."""

    def forward(self, inputs: Any) -> Any:
        w, r = (np.ones((1, 4, n), np.float32) for n in (inputs[0].shape[-1], 1))
        return [anylayer.ops.lstm(inputs[0][0], w, r, hidden_size=1)[0]]


def examples(folder: Path, names: Collection[str] = RUNS) -> tuple[Net, dict[str, Array]]:
    """Return a network of layers of examples/layers side by side, with its inputs. names: of RUNS."""
    nodes: list[Node] = []
    types: dict[str, TensorType | None] = {}
    given: dict[str, Array] = {}
    layers = {}
    for i, name in enumerate(names):
        type_, params, dialect, inputs = RUNS[name]
        node = node_of(folder, type_, params, dialect, inputs)
        if type_ == "ResizeBilinear":
            node.params, node.blobs = {"align_corners": False}, [np.array([[7, 9]])]
        renamed = {n: f"{n}_{i}" for n in (*node.inputs, *node.outputs)}
        node.name = f"layer {i}"
        node.inputs, node.outputs = ([renamed[n] for n in names] for names in (node.inputs, node.outputs))
        types.update({n: TensorType.of(x.shape) for n, x in zip(node.inputs, inputs)})
        given.update(zip(node.inputs, inputs))
        layers[type_] = load_layers([FOLDER / f"{name.split()[0]}.py"])[type_]
        nodes.append(node)
    outputs = {n: n for node in nodes for n in node.outputs}
    return Net(Network("examples", "caffe", types, nodes, outputs), layers), given


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Generation:
    folder = tmp_path_factory.mktemp("opencv")
    net, given = examples(folder, ["interp", "interp smaller", "reorg", "upsample"])
    return net.generate("opencv", folder / "project", inputs=given, test=False)


@pytest.mark.one_per()
@needs_opencv
@pytest.mark.parametrize("names", [["interp", "reverse"], RUNS], ids=["two", "all"])
def test_example_layers_match_numpy_in_opencv(names: Collection[str], tmp_path: Path) -> None:
    net, given = examples(tmp_path, names)
    done = net.generate("opencv", tmp_path / "project", inputs=given)
    assert done.untested == ""
    lines = [line for line in done.report if "largest difference" in line]
    found = {line.split(" in OpenCV ")[0] for line in lines}
    assert found == {RUNS[name][0] for name in names}
    assert len(lines) == len(names) + 2 * ("yolo" in names)  # Yolo has three outputs
    for line in lines:
        error, scale = map(float, re.findall(r"largest difference (\S+), largest value (\S+)$", line)[0])
        assert error <= 1e-5 * scale


@needs_opencv
def test_layers_run_in_networks_and_refuse_what_has_no_code(project: Generation, tmp_path: Path) -> None:
    (tmp_path / "main.cpp").write_text(MAIN)
    flags = opencv_flags("--cflags", "--libs")
    sources = [str(tmp_path / "main.cpp"), str(project.folder / "layers.cpp"), f"-I{project.folder}"]
    command = ["c++", "-std=c++11", "-O0", "-o", str(tmp_path / "main"), *sources, *flags]
    subprocess.run(command, check=True)
    done = subprocess.run([str(tmp_path / "main")], capture_output=True, text=True, check=True)
    lines = done.stdout.splitlines()
    x = np.arange(2 * 6 * 5, dtype=np.float32).reshape(1, 2, 6, 5)
    rows = np.arange(9, dtype=np.float32) * np.float32(5 / 8)
    assert lines[0] == "9 8" and float(lines[1]) == pytest.approx(float(x[0, 0, 0, 0]))
    assert float(lines[2]) == pytest.approx(float(x[0, 1, 5, 4])) and len(rows) == 9
    assert "layer 'x' has params or blobs that no code was generated for" in lines[3]
    assert "height=9; width=8; inputs (N, C, H, W) or height=3; width=1" in lines[3]
    assert "no code was generated for" in lines[4]
    assert lines[6] == "6 8" and float(lines[8]) == -5 * 23  # the scale is read when the layer runs
    assert "layer 'x' has no code for inputs of shape (1, 3, 5, 6); there is code for" in lines[5]


def opencv_flags(*which: str) -> list[str]:
    """Return the words with which OpenCV's programs are compiled."""
    done = subprocess.run(["pkg-config", *which, "opencv4"], capture_output=True, text=True, check=True)
    return done.stdout.split()


MAIN = r"""
#include "layers.hpp"

#include <opencv2/dnn.hpp>

#include <algorithm>
#include <cstdio>
#include <numeric>

static void run(const char* type, const char* params, int height, int width, int channels) {
    std::string shape = "dim: 1 dim: " + std::to_string(channels) + " dim: " + std::to_string(height);
    std::string text = "input: \"x0\" input_shape { " + shape + " dim: " + std::to_string(width) + " }\n" +
        "layer { name: \"x\" type: \"" + type + "\" bottom: \"x0\" top: \"y\" python_param { module: \"m\" " +
        "layer: \"l\" param_str: '" + params + "' } }";
    try {
        cv::dnn::Net net = cv::dnn::readNetFromCaffe(text.c_str(), text.size());
        int sizes[] = {1, channels, height, width};
        cv::Mat x(4, sizes, CV_32F);
        std::iota(x.begin<float>(), x.end<float>(), 0.0f);
        net.setInput(x);
        cv::Mat y = net.forward();
        std::printf("%d %d\n%g\n%g\n", y.size[2], y.size[3], y.ptr<float>()[0], y.ptr<float>()[y.total() - 1]);
    } catch (const cv::Exception& error) {
        std::string what = error.what();
        std::replace(what.begin(), what.end(), '\n', ' ');
        std::printf("%s\n", what.c_str());
    }
}

int main() {
    numpy_layers::register_layers();
    run("Interp", "{\"height\": 9, \"width\": 8}", 6, 5, 2);
    run("Interp", "{\"height\": 9, \"width\": 7}", 6, 5, 2);
    run("Interp", "{\"height\": 9, \"width\": 8, \"pad_beg\": 1}", 6, 5, 2);
    run("Reorg", "{\"stride\": 2}", 5, 6, 3);
    run("Upsample", "{\"scale\": -5, \"stride\": 2}", 3, 4, 2);
}
"""


def generate(folder: Path, cls: Any = Mine, params: str = "add: 2", **options: Any) -> Generation:
    (folder / "net.prototxt").write_text(NET.replace("PARAMS", params))
    net = anylayer.read(folder / "net.prototxt", layers=[("Mine", cls)])
    return net.generate("opencv", folder / "project", test=False, **options)


def test_project_has_its_files_and_readable_code(tmp_path: Path) -> None:
    done = generate(tmp_path)
    files = {"layers.cpp", "layers.hpp", "CMakeLists.txt", "test_layers.cpp", "test_data.bin", "anylayer.json"}
    assert {p.name for p in done.folder.iterdir()} == files and done.untested == "not asked for"
    text = (done.folder / "layers.cpp").read_text()
    assert "// test_project.py:" in text and ": return [inputs[0][:, :, ::-1] + self.add]" in text
    assert "CV_DNN_REGISTER_LAYER_CLASS(Mine, MineLayer);" in text and "forward_fallback" in text
    assert 'params.count("add") == 1' in text and 'params.number("add", 0)' in text


@pytest.mark.parametrize(
    ("cls", "rule"),
    [
        (Flat, "OpenCV has no arrays of rank 1; reshape it in the layer"),
        (Recurrent, "operator LSTM at test_project.py:"),
    ],
)
def test_layer_that_opencv_or_loops_lack_is_refused(cls: Any, rule: str, tmp_path: Path) -> None:
    with pytest.raises(LayerError, match=re.escape(rule)) as error:
        generate(tmp_path, cls)
    assert "'mine' (Mine)" in str(error.value) and not (tmp_path / "project").exists()


def test_params_of_keras_that_are_none_are_left_out(tmp_path: Path) -> None:
    net = anylayer.read(Path(__file__).parents[2] / "data" / "keras" / "nested.keras")
    done = net.generate("opencv", tmp_path / "project", layer=["BatchNormalization"], test=False)
    text = (done.folder / "layers.cpp").read_text()
    assert 'params.is("epsilon", ' in text and "regularizer" not in text


TWO = NET + 'layer { name: "other" type: "Mine" bottom: "mine" top: "other" mine_param { add: 2 flip: true } }'


def test_code_for_fewer_params_is_not_used_for_a_layer_with_more(tmp_path: Path) -> None:
    (tmp_path / "net.prototxt").write_text(TWO.replace("PARAMS", "add: 2"))
    net = anylayer.read(tmp_path / "net.prototxt", layers=[("Mine", Mine)])
    text = (net.generate("opencv", tmp_path / "project", test=False).folder / "layers.cpp").read_text()
    assert re.findall(r"params\.only\((.*)\) &&", text) == ['{"add"}', '{"add", "flip"}']


def test_param_that_is_none_in_one_layer_and_absent_in_another_is_refused(tmp_path: Path) -> None:
    (tmp_path / "net.prototxt").write_text(TWO.replace("PARAMS", "add: 2"))
    net = anylayer.read(tmp_path / "net.prototxt", layers=[("Mine", Mine)])
    net.network.nodes[1].params = {"mine_param": {"add": 2, "flip": None}}
    with pytest.raises(LayerError, match="parameter 'flip' is None in one layer and absent in another"):
        net.generate("opencv", tmp_path / "project", test=False)


def test_layer_option_chooses_types(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="there is no layer of type 'Mind' in the network; did you mean 'Mine'"):
        generate(tmp_path, layer=["Mind"])
    text = (generate(tmp_path, layer=["Mine"]).folder / "layers.cpp").read_text()
    assert text.count("public GeneratedLayer") == 1


@pytest.mark.parametrize("attack", ATTACKS, ids=lambda p: p.stem)
def test_text_from_files_stays_text(attack: Path) -> None:
    text = attack.read_bytes().decode()
    literal = string(text)
    assert re.fullmatch(r'"(\\[0-7]{3}|[A-Za-z0-9 _.,:;=()/+\[\]-])*"', literal)
    assert eval(f"b{literal}").decode() == text
    assert "\n" not in line_comment(text) and not line_comment(f"{text}??/").endswith(("\\", "??/"))


def attacked_project(folder: Path, target: str, *, words: bool) -> Generation:
    """Generate the project of a network whose names, types and, with `words`, params are attacks."""
    lines, layers, before = [], [], "data"
    for i, attack in enumerate(ATTACKS):
        text = attack.read_bytes().decode() + (f" {i}" if attack.stem.startswith("similar") else "")
        name, top = quoted(f"{text}{i}"), quoted(f"{text}{i} top")
        word = f"word: {quoted(text)}" if words else ""
        param = f"mine_param {{ add: {i} {word} }}"
        lines.append(f"layer {{ name: {name} type: {quoted(text)} bottom: {before} top: {top} {param} }}")
        layers.append((text, Mine))
        before = top
    head = NET.strip().splitlines()[0]
    (folder / "net.prototxt").write_text("\n".join([head, *lines]).replace("bottom: data", 'bottom: "data"'))
    net = anylayer.read(folder / "net.prototxt", layers=dict(layers).items())
    return net.generate(target, folder / "project", test=False)


def test_attacks_become_neither_code_nor_cmake(attacked: Attacked, tmp_path: Path) -> None:
    folder, plain = attacked("opencv").folder, generate(tmp_path).folder
    assert (folder / "CMakeLists.txt").read_text() == (plain / "CMakeLists.txt").read_text()
    assert (folder / "layers.hpp").read_text() == (plain / "layers.hpp").read_text()
    for name in ("layers.cpp", "test_layers.cpp"):
        text = (folder / name).read_text("utf-8")
        code = re.sub(r'//[^\n]*|/\*.*?\*/|"(\\[0-7]{3}|\\n|[^"\\\n])*"', "", text, flags=re.DOTALL)
        for word in ("system", "import", "pwned", "CMAKE_COMMAND", "ENV", "coding"):
            assert not re.search(rf"\b{word}\b", code), (name, word)
    assert json.loads((folder / "anylayer.json").read_text()) and "class" in KEYWORDS


@needs_opencv
def test_attacks_compile(attacked: Attacked) -> None:
    folder = attacked("opencv").folder
    checked = ["c++", "-std=c++11", "-fsyntax-only", "-Wall", "-Wextra", *opencv_flags("--cflags")]
    for name in ("layers.cpp", "test_layers.cpp"):
        subprocess.run([*checked, str(folder / name)], check=True)
    assert not list(folder.parent.rglob("pwned"))
