"""Projects for ONNX Runtime and OpenVINO: layers run there as custom operators, and refuse what has no code."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import anylayer
from anylayer.convert.generation import Generation
from anylayer.errors import InputError, LayerError
from anylayer.generators._testing import missing_tools
from tests.generators.conftest import Attacked
from tests.generators.opencv.test_project import Recurrent, examples
from tests.generators.pytorch.test_examples import RUNS

TARGETS = ("onnxruntime", "openvino")
NET = """
layer { name: "data" type: "Input" top: "data" input_param { shape { dim: 1 dim: 2 dim: 4 dim: 6 } } }
layer { name: "conv" type: "Convolution" bottom: "data" top: "conv"
  convolution_param { num_output: 2 kernel_size: 3 pad: 1 } }
layer { name: "mine" type: "Mine" bottom: "conv" top: "mine" mine_param { add: 3 mirror: 1 } }
layer { name: "other" type: "Mine" bottom: "mine" top: "other" mine_param { add: -0.5 mirror: 0 } }
layer { name: "same" type: "Mine" bottom: "other" top: "same" mine_param { add: 7 mirror: 1 } }
layer { name: "relu" type: "ReLU" bottom: "same" top: "relu" }
"""


class Mine:
    """Add a number, and mirror the rows where a param says so."""

    def __init__(self, params: Any, blobs: Any) -> None:
        self.add = np.float32(params.get("add", 0))
        self.mirror = params.get("mirror", 1)

    def forward(self, inputs: Any) -> Any:
        x = inputs[0][:, :, ::-1] if self.mirror else inputs[0]
        return [x + self.add]


@pytest.fixture(scope="module", params=TARGETS)
def target(request: pytest.FixtureRequest) -> str:
    """The name of a target; skips the test where its tools are missing."""
    missing = ", ".join(missing_tools(request.param))
    if missing:
        pytest.skip(f"the test needs tools that are not installed: {missing}")
    return str(request.param)


def read(folder: Path, text: str = NET, cls: type = Mine) -> anylayer.Net:
    """Return a network with random weights whose layer Mine is this class."""
    (folder / "net.prototxt").write_text(text)
    return anylayer.read(folder / "net.prototxt", layers={"Mine": cls}).fill(0)


@pytest.fixture(scope="module")
def small(target: str, tmp_path_factory: pytest.TempPathFactory) -> Generation:
    """The project of NET. Its test has not been run."""
    folder = tmp_path_factory.mktemp(target)
    return read(folder).generate(target, folder / "project", test=False)


def errors(report: list[str]) -> list[tuple[float, float]]:
    """Return (largest difference, largest value) of each output that the operators compute, from a report. Those
    of the OpenCL kernels, where there is a device, come after them."""
    own = "\n".join(report).partition("the OpenCL kernels")[0]
    return [
        (float(error), float(scale))
        for error, scale in re.findall(r"largest difference (\S+), largest value (\S+)", own)
    ]


@pytest.mark.breadth
def test_all_example_layers_match_numpy(target: str, tmp_path: Path) -> None:
    net, given = examples(tmp_path)
    done = net.generate(target, tmp_path / "project", inputs=given)
    assert done.untested == ""
    found = errors(done.report)
    assert len(found) == len(RUNS) + 2  # Yolo has three outputs
    assert all(error <= 1e-5 * scale for error, scale in found)


def test_a_network_calls_one_operator_per_case(small: Generation, built: Path) -> None:
    text = (small.folder / "layers.cpp").read_text()
    assert [name for name in ("Mine", "Mine_2", "Mine_3") if f"bool {name}_run(" in text] == ["Mine", "Mine_2"]
    assert "return [x + self.add]" in text  # the source line
    ((error, scale),) = errors((built / "report").read_text().splitlines())
    assert error <= 1e-5 * scale
    model = (small.folder / ("model.onnx" if small.target == "onnxruntime" else "model.xml")).read_bytes()
    assert model.count(b"Mine_2") >= 1 and b"Mine_3" not in model
    for file in ("layers.cpp", "test_model.py", "CMakeLists.txt"):
        assert "import anylayer" not in (small.folder / file).read_text()


@pytest.mark.one_per()
@pytest.mark.parametrize("kind", ["ReLU", "Softmax"])
def test_built_in_layers_may_be_operators(kind: str, target: str, tmp_path: Path) -> None:
    net = read(tmp_path, NET.replace("ReLU", kind))
    done = net.generate(target, tmp_path / "project", layer=[kind])
    assert done.untested == "" and kind in (done.folder / "layers.cpp").read_text()


@pytest.fixture(scope="module")
def built(small: Generation, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the project whose test has passed, with its library and what the test has printed."""
    folder = tmp_path_factory.mktemp(small.target) / "copy"
    shutil.copytree(small.folder, folder)
    commands = [["cmake", "-S", ".", "-B", "build"], ["cmake", "--build", "build"]]
    if small.target == "openvino":
        commands = [[sys.executable, "-B", "test_model.py", "build"]]
    for command in [*commands, [sys.executable, "-B", "test_model.py"]]:
        done = subprocess.run(command, cwd=folder, check=True, capture_output=True, text=True)
    (folder / "report").write_text(done.stdout)
    return folder


def library_of(project: Path) -> Path:
    """Return the library of a project that is built."""
    return next((project / "build").rglob("liblayers.so"))


def test_operators_take_other_sizes_and_refuse_what_has_no_code(small: Generation, built: Path) -> None:
    library = library_of(built)
    x = np.random.default_rng(0).standard_normal((3, 1, 5, 2), np.float32)
    if small.target == "onnxruntime":
        import onnxruntime as ort
        from onnx import TensorProto, helper

        def run(array: np.ndarray) -> np.ndarray:
            node = helper.make_node("Mine", ["x"], ["y"], domain="layers", add="3", mirror="1")
            infos = [helper.make_tensor_value_info(n, TensorProto.FLOAT, [None] * array.ndim) for n in "xy"]
            graph = helper.make_graph([node], "g", infos[:1], infos[1:])
            opsets = [helper.make_opsetid("", 18), helper.make_opsetid("layers", 1)]
            options = ort.SessionOptions()
            options.log_severity_level = 4
            options.register_custom_ops_library(str(library))
            model = helper.make_model(graph, opset_imports=opsets, ir_version=9).SerializeToString()
            session = ort.InferenceSession(model, options, providers=["CPUExecutionProvider"])
            return np.asarray(session.run(None, {"x": array})[0])
    else:
        import openvino as ov

        core = ov.Core()
        core.add_extension(str(library))
        config = {"INFERENCE_PRECISION_HINT": "f32"}

        def run(array: np.ndarray) -> np.ndarray:
            model = core.read_model(built / "model.xml")
            node = next(op for op in model.get_ordered_ops() if op.get_type_name() == "Mine")
            x = ov.op.Parameter(ov.Type.f32, ov.PartialShape(list(array.shape)))
            made = node.copy_with_new_inputs([x.output(0)]) if hasattr(node, "copy_with_new_inputs") else None
            if made is None:
                node.input(0).replace_source_output(x.output(0))
                made = node
            return np.asarray(core.compile_model(ov.Model([made.output(0)], [x]), "CPU", config)(array)[0])

    np.testing.assert_array_equal(run(x), x[:, :, ::-1] + np.float32(3))
    text = r"operator Mine has no code for inputs of shape \(1, 2, 3\); there is code for .*: any add, mirror=1;"
    with pytest.raises(Exception, match=text):
        run(np.zeros((1, 2, 3), np.float32))


def with_params(small: Generation, folder: Path, params: dict[str, str]) -> Any:
    """Return the outputs of the model on noise, with other params of its layer 'other'."""
    x = np.random.default_rng(0).standard_normal((1, 2, 4, 6), np.float32)
    library = library_of(folder)
    if small.target == "onnxruntime":
        import onnx
        import onnxruntime as ort

        model = onnx.load(folder / "model.onnx")
        node = next(n for n in model.graph.node if n.op_type == "Mine_2")
        for attribute in node.attribute:
            attribute.s = params.get(attribute.name, attribute.s.decode()).encode()
        options = ort.SessionOptions()
        options.log_severity_level = 4
        options.register_custom_ops_library(str(library))
        session = ort.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
        return session.run(None, {"data": x})[0]
    import openvino as ov

    text = (folder / "model.xml").read_text()
    assert text.count('add="-0.5" mirror="0"') == 1
    given = " ".join(f'{name}="{value}"' for name, value in {"add": "-0.5", "mirror": "0", **params}.items())
    core = ov.Core()
    core.add_extension(str(library))
    (folder / "other.xml").write_text(text.replace('add="-0.5" mirror="0"', given))
    made = core.read_model(folder / "other.xml", folder / "model.bin")
    return core.compile_model(made, "CPU", {"INFERENCE_PRECISION_HINT": "f32"})(x)[0]


def test_operators_read_params_and_refuse_those_without_code(small: Generation, built: Path) -> None:
    first = with_params(small, built, {"add": "20"})
    more = with_params(small, built, {"add": "21.5"})
    assert first.min() > 5  # no output is cut to 0
    np.testing.assert_allclose(more - first, 1.5, atol=1e-5)
    text = r"parameter mirror of operator Mine_2 is '1'; there is code for .*: any add, mirror=0; inputs"
    with pytest.raises(Exception, match=text):
        with_params(small, built, {"mirror": "1"})
    for wrong in ("3, 4", "word", ""):
        with pytest.raises(Exception, match=f"parameter add of operator Mine_2 is '{wrong}'"):
            with_params(small, built, {"add": wrong})


class Shifted(Mine):
    """Add a blob per channel, and multiply by another one."""

    def __init__(self, params: Any, blobs: Any) -> None:
        self.blobs = blobs

    def forward(self, inputs: Any) -> Any:
        shift, scale = (blob.reshape(1, -1, 1, 1) for blob in self.blobs)
        return [inputs[0] * scale + shift]


@pytest.mark.one_per()
def test_blobs_are_inputs_of_operators(target: str, tmp_path: Path) -> None:
    (tmp_path / "net.prototxt").write_text(re.sub(r"mine_param {.*?}", "", NET))
    net = anylayer.read(tmp_path / "net.prototxt", layers={"Mine": Shifted})
    random = np.random.default_rng(1)
    for node in net.network.nodes:
        if node.type == "Mine":
            node.blobs = [random.standard_normal(2).astype(np.float32) for _ in range(2)]
    done = net.fill(0).generate(target, tmp_path / "project")
    ((error, scale),) = errors(done.report)
    assert done.untested == "" and error <= 1e-5 * scale
    text = (tmp_path / "project" / "layers.cpp").read_text()
    assert "bool Mine_run(" in text and "bool Mine_2_run(" not in text  # one operator for all blobs
    assert text.count("from[2]") == 1 and "std::vector<int64_t>{2}" in text


def test_network_without_loops_or_layers_is_refused(target: str, tmp_path: Path) -> None:
    one = "\n".join(line for line in NET.splitlines() if '"other"' not in line and '"same"' not in line)
    with pytest.raises(LayerError, match=r"net.prototxt:5: layer 'mine' \(Mine\): .*LSTM"):
        read(tmp_path, one, Recurrent).generate(target, tmp_path / "project")
    with pytest.raises(InputError, match="there is no layer of type 'Mien' in the network; did you mean 'Mine'"):
        read(tmp_path).generate(target, tmp_path / "project", layer=["Mien"])
    (tmp_path / "net.prototxt").write_text(
        "\n".join(line for line in NET.splitlines() if "Mine" not in line and "relu" not in line)
    )
    net = anylayer.read(tmp_path / "net.prototxt").fill(0)
    with pytest.raises(InputError, match="the network has no layer of yours"):
        net.generate(target, tmp_path / "project")
    assert not (tmp_path / "project").exists()


def test_attacks_become_neither_code_nor_cmake(target: str, small: Generation, attacked: Attacked) -> None:
    folder = attacked(target).folder
    assert (folder / "CMakeLists.txt").read_text() == (small.folder / "CMakeLists.txt").read_text()
    for name in ("layers.cpp", "test_model.py"):
        text = (folder / name).read_text("utf-8")
        code = re.sub(r'//[^\n]*|/\*.*?\*/|"(\\[0-7]{3}|\\n|[^"\\\n])*"|\[\'.*\'\]', "", text, flags=re.DOTALL)
        for word in ("system", "pwned", "CMAKE_COMMAND", "ENV", "coding"):
            assert not re.search(rf"\b{word}\b", code), (name, word)
