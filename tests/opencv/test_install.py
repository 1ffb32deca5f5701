"""install() puts what OpenCV 5 has lost into cv2, and uninstall() restores it."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import anylayer.opencv as dnn
from anylayer.errors import AnyLayerError
from tests.layers.darknet.recorded import recorded
from tests.opencv import programs
from tests.readers.tensorflow import files

cv2 = pytest.importorskip("cv2", reason="cv2 is not installed")
pytestmark = pytest.mark.skipif(hasattr(cv2.dnn, "readNetFromCaffe"), reason="OpenCV is older than 5")


class Halve:
    """A layer that keeps every second row and column, which changes the shape."""

    def __init__(self, params: Any, blobs: Any) -> None:
        pass

    def getMemoryShapes(self, inputs: Any) -> Any:
        return [[*inputs[0][:2], (inputs[0][2] + 1) // 2, (inputs[0][3] + 1) // 2]]

    def forward(self, inputs: Any) -> Any:
        return [inputs[0][:, :, ::2, ::2]]


@pytest.fixture
def installed() -> Iterator[None]:
    dnn.install()
    yield
    dnn.uninstall()


def names() -> dict[str, Any]:
    return {f"{place.__name__}.{name}": value for place in (cv2, cv2.dnn) for name, value in vars(place).items()}


def test_uninstall_restores_every_name() -> None:
    before = names()
    dnn.install()
    changed = {name for name, value in names().items() if before.get(name) is not value}
    dnn.install()
    dnn.uninstall()
    assert {"cv2.dnn.readNetFromCaffe", "cv2.dnn.readNet", "cv2.dnn_DetectionModel"} <= changed
    assert names() == before
    dnn.uninstall()
    assert names() == before


@pytest.mark.usefixtures("installed")
def test_opencv_reads_caffe(networks: Path) -> None:
    text, weights = str(networks / "small.prototxt"), str(networks / "small.caffemodel")
    x = programs.noise(*programs.SIZES["small"])
    answers = []
    for net in (
        cv2.dnn.readNet(weights, text),
        cv2.dnn.readNetFromCaffe(text, weights),
        cv2.dnn.readNetFromCaffe(np.fromfile(text, np.uint8), np.fromfile(weights, np.uint8)),
        cv2.dnn.readNet("caffe", Path(weights).read_bytes(), Path(text).read_bytes()),
    ):
        net.setInput(x)
        answers.append(net.forward("prob"))
    want = dnn.readNet(text, weights).net.compile("numpy", outputs=["prob"])(x)["prob"]
    for answer in answers:
        np.testing.assert_allclose(answer, want, rtol=0, atol=1e-6)


@pytest.mark.usefixtures("installed")
def test_models_read_caffe(networks: Path) -> None:
    model = cv2.dnn_ClassificationModel(str(networks / "small.prototxt"), str(networks / "small.caffemodel"))
    assert isinstance(model, dnn.ClassificationModel)
    same = cv2.dnn.SegmentationModel(cv2.dnn.readNetFromCaffe(str(networks / "small.prototxt")))
    assert isinstance(same, dnn.SegmentationModel)


@pytest.fixture
def graph(tmp_path: Path) -> Path:
    """Return a TensorFlow graph with an operation that no library defines."""
    path = tmp_path / "net.pb"
    path.write_bytes(files.graph(files.placeholder("x", 1, 5, 7, 2), files.node("half", "Halve", "x")))
    return path


@pytest.mark.usefixtures("installed")
def test_layer_that_changes_the_shape_runs_in_a_network_that_opencv_reads(graph: Path) -> None:
    cv2.dnn_registerLayer("Halve", Halve)
    try:
        net = cv2.dnn.readNet(str(graph))
        x = programs.noise(1, 2, 5, 7)
        net.setInput(x)
        assert np.array_equal(net.forward(), x[:, :, ::2, ::2])
    finally:
        cv2.dnn_unregisterLayer("Halve")


@pytest.mark.usefixtures("installed")
def test_opencv_keeps_the_networks_without_registered_layers(tmp_path: Path) -> None:
    path = tmp_path / "net.pb"
    path.write_bytes(files.graph(files.placeholder("x", 1, 5, 7, 2), files.node("relu", "Relu", "x")))
    for registered in (False, True):
        if registered:
            cv2.dnn_registerLayer("Halve", Halve)
        assert type(cv2.dnn.readNet(str(path))) is cv2.dnn.Net
    cv2.dnn_unregisterLayer("Halve")


@pytest.mark.usefixtures("installed")
def test_errors_are_caught_as_opencvs(networks: Path) -> None:
    with pytest.raises(cv2.error, match="there is no such file") as caught:
        cv2.dnn.readNetFromCaffe("missing.prototxt")
    assert isinstance(caught.value, AnyLayerError) and isinstance(caught.value, dnn.error)
    assert caught.value.code == -2 and caught.value.func == "readNetFromCaffe"
    assert "there is no such file" in caught.value.msg
    net = cv2.dnn.readNetFromCaffe(str(networks / "small.prototxt"))
    with pytest.raises(cv2.error, match="there is no layer 'conv1'; did you mean 'conv'") as caught:
        net.forward("conv1")
    assert caught.value.code == -5
    with pytest.raises(cv2.error, match=r"networks of Torch 7 .* are not read"):
        cv2.dnn.readNetFromTorch("net.t7")


@pytest.mark.usefixtures("installed")
def test_darknet_networks_are_read(tmp_path: Path) -> None:
    case = next(one for name, one in recorded().items() if name.startswith("yolo "))
    model, weights = case.save(tmp_path)
    for net in (cv2.dnn.readNet(str(weights), str(model)), cv2.dnn.readNetFromDarknet(str(model), str(weights))):
        assert isinstance(net, dnn.Net)
        net.setInput(case.x)
        np.testing.assert_allclose(net.forward(), case.outputs["yolo_1"], rtol=0, atol=1e-4)


SCRIPT = """
import sys
import cv2 as cv
import numpy as np

class Crop:
    def __init__(self, params, blobs):
        self.y = self.x = 0
    def getMemoryShapes(self, inputs):
        self.y = (inputs[0][2] - inputs[1][2]) // 2
        self.x = (inputs[0][3] - inputs[1][3]) // 2
        return [inputs[0][:2] + inputs[1][2:]]
    def forward(self, inputs):
        height, width = inputs[1].shape[2:]
        return [inputs[0][:, :, self.y : self.y + height, self.x : self.x + width]]

cv.dnn_registerLayer("Crop", Crop)
net = cv.dnn.readNet(sys.argv[1], sys.argv[2])
image = np.arange(9 * 11 * 3, dtype=np.uint8).reshape(9, 11, 3)
net.setInput(cv.dnn.blobFromImage(image)[:, :2], "data")
net.setInput(np.zeros((1, 2, 4, 5), np.float32), "other")
print(net.forward()[0, 0, 0].astype(int).tolist(), __name__)
"""


def test_scripts_written_for_opencv4_run_unmodified(tmp_path: Path, networks: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    command = [sys.executable, "-m", "anylayer.opencv", str(script)]
    files = [str(networks / "crop.prototxt"), str(networks / "crop.caffemodel")]
    done = subprocess.run([*command, *files], capture_output=True, text=True)
    image = np.arange(9 * 11 * 3, dtype=np.uint8).reshape(9, 11, 3)
    want = image[2, 3:8, 0].tolist()
    assert done.returncode == 0 and done.stdout.strip() == f"{want} __main__", done.stderr


def test_command_without_a_script_shows_its_usage() -> None:
    done = subprocess.run([sys.executable, "-m", "anylayer.opencv"], capture_output=True, text=True)
    assert done.returncode == 2 and "python -m anylayer.opencv script.py" in done.stdout


def test_missing_script_is_refused() -> None:
    done = subprocess.run([sys.executable, "-m", "anylayer.opencv", "no.py"], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (2, "no.py: there is no such script\n")
