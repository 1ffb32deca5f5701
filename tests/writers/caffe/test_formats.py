"""Networks of other formats as Caffe's: saved by real Keras and TensorFlow, and by way of ONNX."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import anylayer
from anylayer.errors import LayerError
from tests.writers.caffe.harness import SHARED

FOLDER = SHARED / "tf_keras"
NAMES = ("blog", "stride_same_even", "flatten_dense", "deconv_upsample")
MODELS = [p for p in (SHARED / "models" / n for n in ("lenet", "mtcnn_det1", "shufflenet_v1_g3")) if p.exists()]


@pytest.mark.skipif(not FOLDER.exists(), reason="../shared/tf_keras is absent")
@pytest.mark.parametrize("dialect", ["bvlc", "ssd", "opencv"])
@pytest.mark.parametrize("kind", ["keras", "h5", "pb"])
@pytest.mark.parametrize("name", NAMES)
def test_as_keras_computed(tmp_path: Path, name: str, kind: str, dialect: str) -> None:
    net = anylayer.read(FOLDER / f"{name}.{kind}")
    try:
        *_, weights, text = net.write(tmp_path / "net.prototxt", dialect=dialect).files
    except LayerError as error:  # rows and columns repeated by Tile in NHWC
        assert (name, kind, dialect) == ("deconv_upsample", "pb", "bvlc")
        assert "has no Permute" in str(error)
        return
    golden = np.load(FOLDER / f"{name}.npz")
    written = anylayer.read(text, weights, dialect=dialect)
    (key,) = written.inputs
    (y,) = written.compile("numpy")({key: golden["x"].transpose(0, 3, 1, 2)}).values()
    want = golden["y"].transpose(0, 3, 1, 2) if golden["y"].ndim == 4 else golden["y"]
    assert np.abs(y - want).max() <= 1e-5 * np.abs(want).max()


@pytest.mark.skipif(not MODELS, reason="../shared/models is absent")
@pytest.mark.parametrize("model", MODELS, ids=lambda p: p.name)
def test_by_way_of_onnx(tmp_path: Path, model: Path) -> None:
    """What ONNX took apart is put together again: no more layers than before."""
    net = anylayer.read(model / "deploy.prototxt", model / "weights.caffemodel")
    net.write(tmp_path / "net.onnx", verify=False)
    done = anylayer.read(tmp_path / "net.onnx").write(tmp_path / "net.prototxt")
    assert all(check.ok for check in done.checks)
    again = anylayer.read(tmp_path / "net.prototxt").network
    assert len(again.nodes) <= len(net.network.nodes)
