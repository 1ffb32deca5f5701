"""Layers files that register with OpenCV, that are programs, and that are given several times."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import anylayer
from anylayer.errors import AnyLayerError, FileError, InputError, LayerError
from anylayer.layer import load_layers

CLASS = """
class {name}:
    def __init__(self, params, blobs):
        self.top = self.left = 0

    def getMemoryShapes(self, inputs):
        data, target = inputs
        self.top, self.left = (data[2] - target[2]) // 2, (data[3] - target[3]) // 2
        return [[data[0], data[1], target[2], target[3]]]

    def forward(self, inputs):
        height, width = inputs[1].shape[2:]
        return [inputs[0][:, :, self.top : self.top + height, self.left : self.left + width]]
"""
MIDDLE = CLASS.format(name="Middle")
SAMPLE = (
    """
import cv2 as cv
import argparse

parser = argparse.ArgumentParser(description="Show where a picture's edges are.")
parser.add_argument("--picture", help="A file; the camera without it.")
parser.add_argument("--net", required=True)
parser.add_argument("--side", default=500, type=int)
options = parser.parse_args()
"""
    + MIDDLE
    + """
cv.dnn_registerLayer("Crop", Middle)

network = cv.dnn.readNet(cv.samples.findFile(options.net))
title = "Edges"
cv.namedWindow(title, cv.WINDOW_NORMAL)
camera = cv.VideoCapture(options.picture if options.picture else 0)
while cv.waitKey(1) < 0:
    there, frame = camera.read()
    if not there:
        break
    network.setInput(cv.dnn.blobFromImage(frame, 1.0, (options.side, options.side)))
    cv.imshow(title, network.forward()[0, 0])
"""
)
NET = """
layer { name: "a" type: "Input" top: "a" input_param { shape { dim: 1 dim: 2 dim: 8 dim: 9 } } }
layer { name: "b" type: "Input" top: "b" input_param { shape { dim: 1 dim: 1 dim: 4 dim: 3 } } }
layer { name: "crop" type: "Crop" bottom: "a" bottom: "b" top: "crop" }
"""
A = np.arange(144, dtype=np.float32).reshape(1, 2, 8, 9)
B = np.zeros((1, 1, 4, 3), np.float32)


@pytest.fixture(params=["installed", "absent"])
def opencv(request: Any, monkeypatch: pytest.MonkeyPatch) -> str:
    """Run a test with OpenCV, and with cv2 not installed."""
    if request.param == "installed":
        pytest.importorskip("cv2", reason="cv2 is not installed")
    else:
        monkeypatch.setitem(sys.modules, "cv2", None)
        monkeypatch.delitem(sys.modules, "cv2.dnn", raising=False)
    return str(request.param)


def written(tmp_path: Path, text: str, name: str = "mine.py") -> Path:
    (tmp_path / name).write_text(text)
    return tmp_path / name


def test_program_like_opencvs_sample_is_a_layers_file(tmp_path: Path, opencv: str) -> None:
    net = written(tmp_path, NET, "net.prototxt")
    model = anylayer.read(net, layers=[written(tmp_path, SAMPLE)]).compile("onnxruntime")
    assert np.array_equal(model({"a": A, "b": B})["crop"], A[:, :, 2:6, 3:6])
    assert not model.host_calls
    assert sys.modules.get("cv2") is None or type(sys.modules["cv2"]) is ModuleType


@pytest.mark.parametrize(
    ("head", "tail"),
    [
        ("import cv2", "cv2.dnn_registerLayer('Crop', Middle)"),
        ("import cv2 as cv", "cv.dnn_registerLayer('Crop', Middle)"),
        ("import cv2 as cv", "cv.dnn.registerLayer('Crop', Middle)"),
        ("import cv2", "cv2.registerLayer('Crop', Middle)"),
        ("from cv2 import dnn_registerLayer", "dnn_registerLayer('Crop', Middle)"),
        ("from cv2 import dnn", "dnn.registerLayer('Crop', Middle)"),
        ("import cv2.dnn", "cv2.dnn.registerLayer('Crop', Middle)"),
        ("import cv2", "for name in ('Crop', 'Other'):\n    cv2.dnn_registerLayer(name, Middle)"),
        ("import cv2", "try:\n    cv2.dnn_registerLayer('Crop', Middle)\nexcept cv2.error:\n    pass"),
        ("import cv2", "cv2.dnn_unregisterLayer('Crop')\ncv2.dnn_registerLayer('Crop', Middle)"),
        ("import cv2", "cv2.dnn_registerLayer('Crop', Middle)\ncv2.dnn_registerLayer('Crop', Middle)"),
        ("import cv2", "if __name__ == '__main__':\n    cv2.dnn_registerLayer('Crop', Middle)"),
        ("", "def main():\n    import cv2\n    cv2.dnn_registerLayer('Crop', Middle)"),
        ("import cv2", "net = cv2.dnn.readNetFromCaffe('x', 'y')\ncv2.dnn_registerLayer('Crop', Middle)"),
        ("import cv2, sys", "if len(sys.argv) < 9: sys.exit(2)\ncv2.dnn_registerLayer('Crop', Middle)"),
        ("import cv2, no_such_module", "cv2.dnn_registerLayer('Crop', Middle)\nno_such_module.work()"),
        (
            "from __future__ import annotations\nimport cv2, sys",
            "sys.exit(f(1))\ndef f(x: Unknown): pass\ncv2.dnn_registerLayer('Crop', Middle)",
        ),
        ("import cv2, anylayer", "anylayer.layer('Crop')(Middle)\ncv2.dnn_registerLayer('Crop', Middle)"),
    ],
)
def test_registration_with_opencv_defines_a_layer(tmp_path: Path, opencv: str, head: str, tail: str) -> None:
    if opencv == "absent" and "cv2.error" in tail:
        tail = tail.replace("cv2.error", "RuntimeError")
    found = load_layers([written(tmp_path, f"{head}\n{MIDDLE}\n{tail}\n")])
    assert "Crop" in found and found["Crop"].cls.__name__ == "Middle"
    assert Path(found["Crop"].origin).name == "mine.py"


def test_module_in_the_same_folder_may_register(tmp_path: Path, opencv: str) -> None:
    written(tmp_path, f"import cv2\n{MIDDLE}\ncv2.dnn_registerLayer('Crop', Middle)\n", "beside.py")
    for name in ("one.py", "two.py"):
        assert list(load_layers([written(tmp_path, "import beside\n", name)])) == ["Crop"]


def test_opencv_itself_gets_no_layer(tmp_path: Path) -> None:
    cv2 = pytest.importorskip("cv2", reason="cv2 is not installed")
    before = cv2.dnn_registerLayer, cv2.dnn_unregisterLayer, set(vars(cv2)), set(vars(cv2.dnn))
    for k in range(3):  # a type that OpenCV got twice would end the process
        text = f"import cv2\n{MIDDLE}\ncv2.dnn_registerLayer('AnylayerTest', Middle)\nk = {k}\n"
        load_layers([written(tmp_path, text)])
    assert (cv2.dnn_registerLayer, cv2.dnn_unregisterLayer, set(vars(cv2)), set(vars(cv2.dnn))) == before


def test_unchanged_file_is_executed_once(tmp_path: Path) -> None:
    path = written(
        tmp_path,
        "import beside\nprint('executed', beside.WORD)\nclass A:\n    forward = 1\nclass B:\n    forward = 2\n",
    )
    code = (
        "import pathlib\nfrom anylayer.layer import load_layers\n"
        "pathlib.Path('beside.py').write_text('WORD = \"one\"')\n"
        f"for _ in range(2): load_layers(['A={path.name}:A', f'B={path}:B'])\n"
        "pathlib.Path('beside.py').write_text('WORD = \"two\"')\n"
        f"load_layers(['A={path.name}:A'])\n"
        f"pathlib.Path('{path}').write_text('print(3)\\nclass A: forward = 3\\n')\n"
        f"print(load_layers(['A={path.name}:A'])['A'].cls.forward)\n"
    )
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, env=environment, capture_output=True, text=True, check=True
    )
    assert done.stdout == "executed one\nexecuted two\n3\n3\n"


def test_file_for_two_types_does_not_end_the_process(tmp_path: Path) -> None:
    pytest.importorskip("cv2", reason="cv2 is not installed")
    two = CLASS.format(name="Two")
    written(tmp_path, f"import cv2\n{MIDDLE}{two}\ncv2.dnn_registerLayer('Crop', Middle)\n")
    written(tmp_path, NET, "net.prototxt")
    words = [
        "inspect",
        "net.prototxt",
        "-l",
        "Crop=mine.py:Middle",
        "-l",
        "Other=mine.py:Two",
        "-l",
        "mine.py",
        "-q",
    ]
    run = "from anylayer.cli import main; main(prog_name='anylayer')"
    done = subprocess.run(
        [sys.executable, "-c", run, *words], cwd=tmp_path, capture_output=True, encoding="utf-8", check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert "mine.py" in done.stdout


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        ("import cv2\ncv2.dnn_registerLayer('A', 3)\n", r"mine.py:2: TypeError: class must be callable"),
        (
            "import cv2\nclass A: pass\nclass B: pass\n"
            "cv2.dnn_registerLayer('T', A)\ncv2.dnn_registerLayer('T', B)\n",
            "layer type 'T' is registered twice",
        ),
        (MIDDLE, r"mine.py registers no layer\. Put @anylayer.* or give it as Type=.*mine.py:Middle$"),
        (
            "import sys\nsys.exit(2)\n" + MIDDLE,
            r"mine.py:2: ends the program when it is executed\. Put the classes",
        ),
        ("import cv2\nclass A: x = 1 / 0\ncv2.dnn_registerLayer('A', A)\n", "mine.py:2: ZeroDivisionError"),
    ],
)
def test_file_without_layers_is_refused(tmp_path: Path, opencv: str, text: str, rule: str) -> None:
    with pytest.raises((FileError, InputError), match=rule):
        load_layers([written(tmp_path, text)])


def test_use_of_missing_opencv_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cv2", None)
    text = (
        "import cv2\nclass Uses:\n    def __init__(self, params, blobs): pass\n"
        "    def forward(self, inputs): return [cv2.flip(inputs[0], 1)]\ncv2.dnn_registerLayer('Crop', Uses)\n"
    )
    net = anylayer.read(written(tmp_path, NET, "net.prototxt"), layers=[written(tmp_path, text)])
    rule = r"OpenCV is not installed, so there is no cv2.flip: pip install opencv-python \(.*mine.py:4\)"
    with pytest.raises(LayerError, match=rule):
        net.compile("numpy")({"a": A, "b": B})


@pytest.mark.parametrize(
    ("layers", "rule"),
    [
        (
            [("Crop",)],
            r"layers must be files, 'Type=file.py:Class' or \(type, class\) pairs, got \('Crop',\)",
        ),
        ([("Crop", object, 1)], "pairs, got"),
        ([(3, object)], "pairs, got"),
        ([5], "pairs, got 5"),
        (["Crop=mine.py"], r"'Crop=mine.py' names no class\. Write Crop=mine.py:Class"),
        (["Crop=mine.py:Midle"], r"mine.py has no class 'Midle'; did you mean 'Middle'\?"),
        (["Crop=mine.py:Xyz"], r"mine.py has no class 'Xyz'; it has: Middle"),
        (["Crop=nowhere.py:Xyz"], "nowhere.py: there is no such layers file"),
    ],
)
def test_wrong_values_for_layers_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, layers: Any, rule: str
) -> None:
    monkeypatch.chdir(tmp_path)
    written(tmp_path, MIDDLE)
    with pytest.raises(AnyLayerError, match=rule):
        load_layers(layers)


def test_layers_may_be_a_mapping() -> None:
    class Given:
        pass

    assert load_layers({"Some": Given})["Some"].cls is Given


def test_two_files_that_define_one_type_are_refused(tmp_path: Path) -> None:
    one, two = (tmp_path / name for name in ("one.py", "two.py"))
    for path in (one, two):
        path.write_text(f'import anylayer\n\n\n@anylayer.layer("Crop")\n{CLASS.format(name="Crop").lstrip()}')
    with pytest.raises(InputError, match=r"two layers files define type 'Crop': .*one\.py and .*two\.py\. Choose"):
        load_layers([one, two])
    assert load_layers([one, f"Crop={two}:Crop"])["Crop"].origin == str(two)
    assert load_layers([f"Crop={one}:Crop", two])["Crop"].origin == str(one)
    assert load_layers([one, one])["Crop"].origin == str(one)


def test_file_may_import_another_layers_file(tmp_path: Path) -> None:
    base, more = (tmp_path / name for name in ("base_layers.py", "more_layers.py"))
    base.write_text(f'import anylayer\n\n\n@anylayer.layer("Crop")\n{CLASS.format(name="Crop").lstrip()}')
    more.write_text("import base_layers\n" + base.read_text().replace("Crop", "Crop2"))
    assert set(load_layers([base, more])) == {"Crop", "Crop2"}


def test_source_in_cpp_is_refused_with_the_command_that_compiles_it(tmp_path: Path) -> None:
    path = tmp_path / "scale.cpp"
    path.write_text("int x;")
    with pytest.raises(FileError, match=r"must be a Python file.*anylayer build"):
        load_layers([path])
