"""Networks that Keras and TensorFlow saved, and ONNX files, are written for Caffe."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from tools.reference import REFERENCE, needs_data

import anylayer
from anylayer.errors import LayerError

FOLDER = REFERENCE / "tf_keras"
NAMES = ("blog", "stride_same_even", "flatten_dense", "deconv_upsample")
MODELS = [p for p in (REFERENCE / "models" / n for n in ("lenet", "mtcnn_det1", "shufflenet_v1_g3")) if p.exists()]


@needs_data("tf_keras")
@pytest.mark.parametrize("dialect", ["bvlc", "ssd", "opencv"])
@pytest.mark.parametrize("kind", ["keras", "h5", "pb"])
@pytest.mark.parametrize("name", NAMES)
def test_written_network_matches_keras(tmp_path: Path, name: str, kind: str, dialect: str) -> None:
    net = anylayer.read(FOLDER / f"{name}.{kind}")
    try:
        *_, weights, text = net.write(tmp_path / "net.prototxt", dialect=dialect).files
    except LayerError as error:  # Tile repeats rows and columns of NHWC maps
        assert (name, kind, dialect) == ("deconv_upsample", "pb", "bvlc")
        assert "has no Permute" in str(error)
        return
    golden = np.load(FOLDER / f"{name}.npz")
    written = anylayer.read(text, weights, dialect=dialect)
    (key,) = written.inputs
    (y,) = written.compile("numpy")({key: golden["x"].transpose(0, 3, 1, 2)}).values()
    want = golden["y"].transpose(0, 3, 1, 2) if golden["y"].ndim == 4 else golden["y"]
    assert np.abs(y - want).max() <= 1e-5 * np.abs(want).max()


@needs_data("models")
@pytest.mark.parametrize("model", MODELS, ids=lambda p: p.name)
def test_round_trip_through_onnx(tmp_path: Path, model: Path) -> None:
    """Patterns of ONNX operators are fused again: there are no more layers than in the original."""
    net = anylayer.read(model / "deploy.prototxt", model / "weights.caffemodel")
    net.write(tmp_path / "net.onnx", verify=False)
    done = anylayer.read(tmp_path / "net.onnx").write(tmp_path / "net.prototxt")
    assert all(check.ok for check in done.checks)
    again = anylayer.read(tmp_path / "net.prototxt").network
    assert len(again.nodes) <= len(net.network.nodes)


@pytest.mark.parametrize(
    ("dialect", "kept"),
    [("bvlc", set()), ("ssd", set()), ("pspnet", {"update_global_stats"}), ("opencv", {"scale_train"})],
)
def test_fields_that_a_fork_lacks_are_neither_written_nor_declared(
    dialect: str, kept: set[str], tmp_path: Path
) -> None:
    (tmp_path / "net.prototxt").write_text("""input: "x" input_shape { dim: 1 dim: 2 dim: 3 dim: 3 }
layer { name: "bn" type: "BatchNorm" bottom: "x" top: "y" batch_norm_param { update_global_stats: false } }
layer { name: "drop" type: "Dropout" bottom: "y" top: "z" dropout_param { scale_train: true } }""")
    written = anylayer.read(tmp_path / "net.prototxt").fill().write(tmp_path / "out.prototxt", dialect=dialect)
    assert written.files
    for file in (tmp_path / "out.prototxt", tmp_path / "out.proto"):
        found = {name for name in ("update_global_stats", "scale_train") if name in file.read_text()}
        assert found == kept, file.name
