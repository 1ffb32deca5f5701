"""The module of NumPy layers for cv2: its test, what it does where a layer fails, and what it refuses."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import anylayer
from anylayer.errors import InputError, LayerError
from anylayer.generators import opencv_python
from anylayer.generators.opencv_python import literal, typed
from anylayer.network import Flag, Word
from tests.generators.pytorch.test_examples import RUNS, example
from tests.generators.pytorch.test_project import quoted
from tests.generators.test_names import ATTACKS

cv2 = pytest.importorskip("cv2", reason="cv2 is not installed")

NET = """
layer { name: "data" type: "Input" top: "data" input_param { shape { dim: 1 dim: 2 dim: 3 dim: 4 } } }
layer { name: "mine" type: "Mine" bottom: "data" top: "mine" mine_param { PARAMS } }
"""


class Mine:
    """Add a number to the sum of a list; the input stays as it is."""

    def __init__(self, params: Any, blobs: Any) -> None:
        self.add, self.list = float(params.get("add", 0)), np.atleast_1d(params.get("list", 0))
        self.word = params.get("word", "")

    def forward(self, inputs: Any) -> Any:
        return [inputs[0] * np.float32(self.add) + np.float32(self.list.sum()) + np.float32(len(self.word))]


class Larger(Mine):
    """Repeat the rows."""

    def forward(self, inputs: Any) -> Any:
        return [np.repeat(inputs[0], 2, axis=2)]


class Weighted(Mine):
    """Multiply by the weights, and without them by 1."""

    def __init__(self, params: Any, blobs: Any) -> None:
        self.weights = blobs[0] if blobs else np.ones(1, np.float32)

    def forward(self, inputs: Any) -> Any:
        return [x * self.weights.reshape(1, -1, 1, 1) for x in inputs]


class Typed(anylayer.Layer):
    """A layer with declared fields."""

    message = "mine_param"
    add: float = anylayer.field(1, "float", 2.5, doc="a factor")
    list: tuple[int, ...] = anylayer.field(2, "int32", repeated=True, doc="summands")
    word: str = anylayer.field(3, "string", "", doc="a text")

    def setup(self) -> None:
        anylayer.need(self.add, "add is 0")

    def forward(self, x: Any) -> Any:
        return x * np.float32(self.add) + np.float32(sum(self.list))


def generate(folder: Path, params: str = "add: -0.5", cls: Any = Mine, **options: Any) -> Any:
    (folder / "net.prototxt").write_text(NET.replace("PARAMS", params))
    net = anylayer.read(folder / "net.prototxt", layers=[("Mine", cls)])
    if cls is Weighted:
        net.network.nodes[-1].blobs = [np.array([2, 3], np.float32)]
    return net.generate("opencv-python", folder / "project", **options)


def run(project: Path, code: str, python: str = sys.executable) -> str:
    """Run code in the project's folder, without anylayer. Return what it prints. Raises for a deadlock."""
    hidden = "import sys; sys.modules['anylayer'] = None; sys.path.insert(0, '.')\n"
    hidden += "import cv2, numpy as np, numpy_layers\nx = np.ones((1, 2, 3, 4), np.float32)\n"
    command = [python, "-B", "-c", hidden + code]
    environment = {**os.environ, "PYTHONPATH": ""}
    done = subprocess.run(
        command, cwd=project, env=environment, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def opencv4() -> str:
    """Return a Python with OpenCV 4."""
    python = os.environ.get("ANYLAYER_OPENCV4") or sys.executable
    code = "import cv2, sys; sys.exit(not hasattr(cv2.dnn, 'readNetFromCaffe'))"
    environment = {**os.environ, "PYTHONPATH": ""}
    if subprocess.run([python, "-c", code], env=environment, capture_output=True, check=False).returncode:
        pytest.skip("OpenCV 4 is not installed")
    return python


@pytest.mark.parametrize("cls", [Mine, Typed])
def test_layer_runs_in_cv2_and_keeps_signs_and_lists(tmp_path: Path, cls: Any) -> None:
    done = generate(tmp_path, "add: -0.5 list: -3 list: 1 word: 'ab'", cls)
    assert done.untested == "" and "largest difference 0," in done.report[0] and len(done.report) == 1
    names = {"numpy_layers.py", "test_numpy_layers.py", "test_data.npz", "case_0.onnx", "anylayer.json"}
    assert {p.name for p in done.folder.iterdir()} == names
    code = "net = cv2.dnn.readNet('case_0.onnx'); net.setInput(x); print(numpy_layers.forward(net).ravel()[0])"
    value = -0.5 - 2 + (2 if cls is Mine else 0)
    assert run(done.folder, "numpy_layers.register('numpy'); " + code) == str(value)


@pytest.mark.parametrize("name", RUNS)
def test_examples_run_in_cv2(name: str, tmp_path: Path) -> None:
    done = example(name, tmp_path).generate(test=True, target="opencv-python")
    if done.untested:
        assert done.untested.startswith("this needs OpenCV 4")
        command = [opencv4(), "-B", "test_numpy_layers.py"]
        environment = {**os.environ, "PYTHONPATH": ""}
        ran = subprocess.run(
            command, cwd=done.folder, env=environment, capture_output=True, text=True, check=False
        )
        assert ran.returncode == 0, ran.stderr
        done.report = ran.stdout.splitlines()
    assert done.report and all("largest difference" in line for line in done.report)


def test_exception_in_forward_is_raised_without_a_deadlock(tmp_path: Path) -> None:
    folder = generate(tmp_path).folder
    code = """
def fail(self, inputs):
    raise KeyError("missing")
numpy_layers.Mine.forward = fail
numpy_layers.Mine.getMemoryShapes = lambda self, inputs: inputs
numpy_layers.register("numpy")
net = cv2.dnn.readNet("case_0.onnx")
net.setInput(x)
print(np.isnan(net.forward()).all())
try:
    numpy_layers.check()
except numpy_layers.LayerFailed as error:
    print(error)
numpy_layers.check()
net.setInput(x)
try:
    numpy_layers.forward(net)
except numpy_layers.LayerFailed as error:
    print(type(error.__cause__).__name__)
"""
    assert run(folder, code).splitlines() == ["True", "layer of type 'Mine': KeyError: 'missing'", "KeyError"]


def test_exception_before_forward_is_raised_with_its_text(tmp_path: Path) -> None:
    folder = generate(tmp_path).folder
    code = """
def fail(self, params, blobs):
    raise ValueError("no such thing")
numpy_layers.Mine.__init__ = fail
numpy_layers.register("numpy")
try:
    net = cv2.dnn.readNet("case_0.onnx")
    net.setInput(x)
    numpy_layers.forward(net)
except cv2.error:
    numpy_layers.check()
"""
    with pytest.raises(AssertionError, match="LayerFailed: layer of type 'Mine': ValueError: no such thing"):
        run(folder, code)


def test_registering_twice_does_not_end_the_process(tmp_path: Path) -> None:
    folder = generate(tmp_path).folder
    code = """
import importlib
for i in range(3):
    numpy_layers.register("numpy")
    numpy_layers.register()
    numpy_layers = importlib.reload(numpy_layers)
numpy_layers.register("numpy")
numpy_layers.unregister()
numpy_layers.unregister()
numpy_layers.register("numpy")
net = cv2.dnn.readNet("case_0.onnx")
net.setInput(x)
print(numpy_layers.forward(net)[0, 0, 0, 0])
"""
    assert run(folder, code) == "-0.5"


def test_opencv5_refuses_outputs_of_another_shape(tmp_path: Path) -> None:
    if cv2.__version__ < "5":
        pytest.skip("OpenCV is older than 5")
    done = generate(tmp_path, cls=Larger)
    assert done.untested == "this needs OpenCV 4 (pip install 'opencv-python-headless<5')"
    code = "numpy_layers.register('numpy'); net = cv2.dnn.readNet('case_0.onnx'); net.setInput(x)\n"
    code += "try: numpy_layers.forward(net)\nexcept numpy_layers.LayerFailed as error: print(error)"
    said = run(done.folder, code)
    assert "OpenCV 5 takes only layers in Python with as many outputs as inputs" in said and "Use OpenCV 4" in said
    tests = "import test_numpy_layers as t; t.test_layers_match_numpy()"
    assert "case 0 ('Mine'): not run, OpenCV 5" in run(done.folder, tests)


def test_opencv5_refuses_layers_with_weights(tmp_path: Path) -> None:
    if cv2.__version__ < "5":
        pytest.skip("OpenCV is older than 5")
    done = generate(tmp_path, cls=Weighted)
    assert done.untested == "this needs OpenCV 4 (pip install 'opencv-python-headless<5')"
    read = "numpy_layers.register('numpy')\ntry: net = cv2.dnn.readNet('case_0.onnx')\n"
    read += "except cv2.error: pass\ntry: numpy_layers.check()\nexcept numpy_layers.LayerFailed as e: print(e)"
    assert "OpenCV 5 passes no weights to layers in Python. Use OpenCV 4" in run(done.folder, read)
    classic = (
        "numpy_layers.register('numpy'); net = cv2.dnn.readNetFromONNX('case_0.onnx', cv2.dnn.ENGINE_CLASSIC)"
    )
    assert run(done.folder, f"{classic}; net.setInput(x); print(numpy_layers.forward(net).sum())") == "60.0"
    tests = "import test_numpy_layers as t; t.test_layers_match_numpy()"
    assert run(done.folder, tests) == "case 0 ('Mine'): not run, OpenCV 5 passes no weights to layers in Python"


def test_layers_with_weights_run_in_opencv4(tmp_path: Path) -> None:
    folder = generate(tmp_path, cls=Weighted, test=False).folder
    code = "import test_numpy_layers as t; print([s > 1 >= e for _, e, s, _ in t.differences()])"
    assert run(folder, code, opencv4()) == "[True]"


def test_class_cannot_change_the_input(tmp_path: Path) -> None:
    folder = generate(tmp_path).folder
    code = """
def write(self, inputs):
    inputs[0][:] = 7
    return inputs
numpy_layers.Mine.forward = write
numpy_layers.register("numpy")
net = cv2.dnn.readNet("case_0.onnx")
net.setInput(x)
try:
    numpy_layers.forward(net)
except numpy_layers.LayerFailed as error:
    print(error)
"""
    assert "destination is read-only" in run(folder, code)


def test_opencv4_gives_text_and_the_module_restores_the_params(tmp_path: Path) -> None:
    python = opencv4()
    folder = generate(tmp_path, "add: -0.5 list: -3 list: 1", test=False).folder
    code = "numpy_layers.register(); net = cv2.dnn.readNetFromCaffe('../net.prototxt'); net.setInput(x)\n"
    code += "print(numpy_layers.forward(net).ravel()[0])"
    assert run(folder, code, python) == str(-0.5 - 2)


def exact(folder: Path) -> Callable[[dict[str, Any]], dict[str, Any]]:
    """Return the function of the generated module that restores params, as in OpenCV 4."""
    text = (folder / "numpy_layers.py").read_text()
    space: dict[str, Any] = {"__name__": "numpy_layers_of_test"}
    sys.modules["numpy_layers_of_test"] = sys.modules[__name__]  # dataclasses look the module up
    exec(compile(text, "numpy_layers.py", "exec"), space)
    space["_OPENCV5"] = False
    return lambda params: space["_exact"](space["_LAYERS"][0], params)


def test_params_are_restored_only_where_they_have_one_meaning(tmp_path: Path) -> None:
    first = (
        '}} }} layer {{ name: "b" type: "Mine" bottom: "data" top: "b" mine_param {{ {} }} }} layer {{ name: "c" '
    )
    first += 'type: "Mine" bottom: "data" top: "c" mine_param {{ add: 4 '
    restore = exact(generate(tmp_path, "add: -0.5 list: -3 list: 1 " + first.format("add: 2"), test=False).folder)
    assert restore({"add": "0.5", "list": "1"}) == {"add": -0.5, "list": (-3, 1)}
    assert restore({"add": "2", "group_size": 0}) == {"add": 2}
    assert restore({"add": -7.0, "list": (1, 2)}) == {"add": -7.0, "list": (1, 2)}
    assert restore({"add": "9", "param_str": '{"add": -9}'})["add"] == -9
    with pytest.raises(ValueError, match=r"no node of the generated network has them: \{'add': '7'\}"):
        restore({"add": "7"})
    other = tmp_path / "other"
    other.mkdir()
    restore = exact(generate(other, "add: -2 " + first.format("add: 2"), test=False).folder)
    with pytest.raises(ValueError, match="so they fit several nodes"):
        restore({"add": "2"})


class UsesOps(Mine):
    def forward(self, inputs: Any) -> Any:
        return [anylayer.ops.relu(inputs[0])]


class UsesPackage(Mine):
    def forward(self, inputs: Any) -> Any:
        import pytest

        return [inputs[0] * len(pytest.__name__)]


def nested() -> Any:
    class Inner(Mine):
        pass

    return Inner


@pytest.mark.parametrize(
    ("cls", "text"),
    [
        (UsesOps, r"its class uses anylayer.ops \(.*\), which needs anylayer; write it in NumPy"),
        (UsesPackage, "its class imports pytest .* only NumPy and Python's own modules are available there"),
        (nested(), "only a class at the top level of a Python file can be written as source code"),
    ],
)
def test_class_that_needs_more_than_numpy_is_refused(tmp_path: Path, cls: Any, text: str) -> None:
    with pytest.raises(LayerError, match=text) as caught:
        generate(tmp_path, cls=cls)
    assert "layer 'mine' (Mine)" in str(caught.value) and not (tmp_path / "project").exists()


def test_types_are_chosen_by_name(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="there is no layer of type 'Mien' in the network; did you mean 'Mine'"):
        generate(tmp_path, layer=["Mien"])
    (tmp_path / "net.prototxt").write_text(NET.replace("Mine", "ReLU").replace("mine_param { PARAMS }", ""))
    net = anylayer.read(tmp_path / "net.prototxt")
    with pytest.raises(InputError, match="the network has no layer of yours; give the file with your layers"):
        net.generate("opencv-python", tmp_path / "project")
    with pytest.raises(LayerError, match=r"ReLU has no class of yours in NumPy; give one: layers=\[\.\.\.\]"):
        net.generate("opencv-python", tmp_path / "project", layer=["ReLU"])


def test_params_are_written_as_literals() -> None:
    value = {
        "a": (1, -2.5),
        "b": Flag(True),
        "c": Word("W'\n"),
        "d": float("-inf"),
        "e": (),
        "f": np.ones(1, "i4"),
    }
    found = eval(literal(value), {"np": np})
    assert found.pop("f") == np.ones(1)
    assert found == {"a": (1, -2.5), "b": True, "c": "W'\n", "d": float("-inf"), "e": ()}


@pytest.mark.parametrize("attack", ATTACKS, ids=lambda p: p.stem)
def test_text_of_the_network_does_not_become_code(attack: Path, tmp_path: Path) -> None:
    text = attack.read_bytes().decode()
    net = NET.replace("PARAMS", f"add: 1 word: {quoted(text)}").replace('"Mine"', quoted(text))
    (tmp_path / "net.prototxt").write_text(net.replace('"mine"', quoted(text)))
    done = anylayer.read(tmp_path / "net.prototxt", layers=[(text, Mine)]).generate(
        "opencv-python", tmp_path / "project", test=False
    )
    tree = ast.parse((done.folder / "numpy_layers.py").read_text())
    strings = [n.value for n in ast.walk(tree) if isinstance(n, ast.Constant) and isinstance(n.value, str)]
    assert text in strings
    top = {type(n) for n in tree.body}
    assert top <= {ast.Expr, ast.Import, ast.ImportFrom, ast.Assign, ast.AnnAssign, ast.FunctionDef, ast.ClassDef}
    imports = [ast.unparse(n) for n in ast.walk(tree) if isinstance(n, (ast.Import, ast.ImportFrom))]
    assert "import os" not in imports and opencv_python.OPTIONS == ("layer",)
    ast.parse((done.folder / "test_numpy_layers.py").read_text())


def test_limits_of_fields_are_checked_in_the_module() -> None:
    class Limited(typed._Layer):
        size: int = typed._field(1, "uint32", 0, least=1, most=16)

    assert Limited({"size": 16}, ()).size == 16
    for size in (0, 17):
        with pytest.raises(ValueError, match=f"size must be at .* got {size}"):
            Limited({"size": size}, ())
