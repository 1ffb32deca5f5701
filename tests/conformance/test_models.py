"""Compare whole networks with the results of real Caffe, on every engine."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from tools.reference import REFERENCE, needs_data

import anylayer
from anylayer.testing import assert_same

MODELS = REFERENCE / "models"
DEEP = 1e-4  # relative, through a whole network

pytestmark = needs_data("models")

# model folder -> folders with inputs and outputs, and the dialect the file needs
RUNS = [
    ("lenet", ".", None),
    ("mobilenet_ssd", ".", "ssd"),
    ("mtcnn_det1", "fullimage", None),
    ("mtcnn_det1", "patch12", None),
    ("mtcnn_det2", "batch6", None),
    ("shufflenet_v1_g3", ".", None),
    ("squeezenet_v1.1", ".", None),
    ("ultraface_RFB-320", ".", None),
]


def arrays(folder: Path, kind: str) -> dict[str, np.ndarray]:
    return {p.stem.removeprefix(f"{kind}_"): np.load(p) for p in sorted(folder.glob(f"{kind}_*.npy"))}


def read(name: str, dialect: str | None) -> anylayer.Net:
    return anylayer.read(MODELS / name / "deploy.prototxt", MODELS / name / "weights.caffemodel", dialect=dialect)


@pytest.mark.parametrize(("name", "run", "dialect"), RUNS)
def test_model_matches_caffe(name: str, run: str, dialect: str | None, engine: str) -> None:
    folder = MODELS / name / run
    model = read(name, dialect).compile(engine=engine)
    outputs = model(arrays(folder, "input"))
    wanted = arrays(folder, "output")
    assert list(outputs) == sorted(wanted)
    assert model.host_calls == []
    for blob, want in wanted.items():
        if blob == "detection_out":
            same_detections(outputs[blob], want)
        else:
            assert_same(outputs[blob], want, blob, DEEP)


def same_detections(got: np.ndarray, want: np.ndarray) -> None:
    """Compare rows of boxes; rows may be swapped if their scores are equal up to rounding."""
    assert got.shape == want.shape
    order = [np.lexsort((a[0, 0, :, 3].round(3), -a[0, 0, :, 2].round(3), a[0, 0, :, 1])) for a in (got, want)]
    assert_same(got[0, 0, order[0]], want[0, 0, order[1]], "detections", DEEP)


@pytest.mark.parametrize(("name", "run"), [("mtcnn_det1", "patch12"), ("mtcnn_det2", "batch6")])
def test_every_blob_matches_caffe(name: str, run: str, engine: str) -> None:
    folder = MODELS / name / run
    blobs = {k: v for k, v in arrays(folder, "blob").items() if "_split_" not in k}
    model = read(name, None).compile(engine=engine, outputs=[k for k in blobs if k != "data"])
    outputs = model(arrays(folder, "input"))
    for blob in outputs:
        assert_same(outputs[blob], blobs[blob], blob, DEEP)


def test_hed_runs_with_crop_of_tutorial(tmp_path: Path) -> None:
    """The weights are random: this test checks the shapes and that there is a single engine call."""
    layers = tmp_path / "crop.py"
    layers.write_text(
        "import anylayer\n\n\n@anylayer.layer('Crop')\nclass CropLayer:\n"
        "    def __init__(self, params, blobs):\n        self.box = None\n\n"
        "    def getMemoryShapes(self, inputs):\n        (n, c, h, w), (_, _, th, tw) = inputs\n"
        "        self.y, self.x = (h - th) // 2, (w - tw) // 2\n        self.h, self.w = th, tw\n"
        "        return [[n, c, th, tw]]\n\n"
        "    def forward(self, inputs):\n"
        "        return [inputs[0][:, :, self.y:self.y + self.h, self.x:self.x + self.w]]\n"
    )
    net = anylayer.read(MODELS / "hed" / "deploy.prototxt", layers=[layers]).fill()
    model = net.compile(engine="onnxruntime", shapes={"data": (1, 3, 64, 48)})
    outputs = model({"data": np.zeros((1, 3, 64, 48), np.float32)})
    assert {o.shape for o in outputs.values()} == {(1, 1, 64, 48)}
    assert model.host_calls == []
    assert len(model.plan.steps) == 1
