"""Round trips of Caffe networks: the written files are read as the original files were."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tools.reference import REFERENCE, needs_data

import anylayer
from anylayer.errors import LayerError
from anylayer.network import Network
from anylayer.readers.caffe import prove
from anylayer.testing import assert_same
from anylayer.writers.caffe import save
from anylayer.writers.caffe.dialects import dialect_of
from anylayer.writers.caffe.from_nodes import net_from_nodes
from anylayer.writers.caffe.layers import CaffeNet
from anylayer.writers.caffe.outputs import finish_outputs

CASES = [p.parent for p in sorted((REFERENCE / "golden").glob("*/*/case.json"))]
INFO: dict[Path, dict[str, Any]] = {c: json.loads((c / "case.json").read_text()) for c in CASES}
COMPUTED = [c for c in CASES if not INFO[c].get("rejected")]
FILES = sorted((REFERENCE / "prototxt").glob("*.prototxt"))
DIALECTS = {
    "ChenYingpeng+caffe-yolov3__": "mobilenet-yolo",
    "MobileNet-YOLO__models__darknet__darknet19": "mobilenet-yolo",
    "gklz1982+caffe-yolov2__examples__indoor": "yolov2",
}

golden = needs_data("golden")
wild = needs_data("prototxt")

BVLC_LACKS = {
    *("DetectionOutput", "Permute", "PSROIPooling", "ROIAlignAvg", "ROIPooling", "SpatialTransformer"),
    *("UpsampleSegNet", "YoloDetectionOutput", "Yolov3DetectionOutput"),
}
"""Folders of golden whose layers BVLC's Caffe cannot express by any others."""


def as_float32(value: Any) -> Any:
    """Return params with numbers as float32, since a text may have more digits than Caffe keeps."""
    if isinstance(value, dict):
        return {k: as_float32(v) for k, v in value.items()}
    if isinstance(value, list):
        return [as_float32(v) for v in value]
    return float(np.float32(value)) if type(value) is float else value


def assert_equal(one: Network, two: Network) -> None:
    """Check that two networks are equal except for their places."""
    assert one.inputs == two.inputs
    assert one.outputs == two.outputs
    assert [n.name for n in one.nodes] == [n.name for n in two.nodes]
    for a, b in zip(one.nodes, two.nodes):
        assert (a.type, a.inputs, a.outputs, a.in_place) == (b.type, b.inputs, b.outputs, b.in_place), a.name
        assert as_float32(a.params) == as_float32(b.params), a.name
        assert a.settings == b.settings, a.name
        assert len(a.blobs) == len(b.blobs), a.name
        assert all(np.array_equal(x, y, equal_nan=True) for x, y in zip(a.blobs, b.blobs)), a.name
    assert {k: (p.scale, p.crop) for k, p in one.preprocess.items()} == {
        k: (p.scale, p.crop) for k, p in two.preprocess.items()
    }


def rewritten(network: Network, folder: Path) -> list[Path]:
    """Write the network's files and check that protobuf reads every parameter of the network from them."""
    net = net_from_nodes(network, CaffeNet(network.name, dialect=dialect_of(network.dialect)))
    finish_outputs(net, network.outputs)
    files = save(net, folder / "rewritten.prototxt")
    prove(files, {layer.name: layer.given for layer in net.layers if layer.given is not None})
    return files


def read(case: Path) -> anylayer.Net:
    weights = case / "weights.caffemodel"
    given = weights if weights.exists() else None
    return anylayer.read(case / "deploy.prototxt", given, dialect=INFO[case]["dialect"])


def name(path: Path) -> str:
    return f"{path.parent.name}/{path.name}" if path.is_dir() else path.stem


@pytest.mark.one_per(lambda case: case.parent.name)
@golden
@pytest.mark.parametrize("case", COMPUTED, ids=name)
def test_round_trip_of_golden_networks(case: Path, tmp_path: Path) -> None:
    net = read(case)
    proto, weights, text = rewritten(net.network, tmp_path)
    dialect = INFO[case]["dialect"]
    assert_equal(net.network, anylayer.read(text, weights, dialect=dialect).network)
    inputs = {k: np.load(case / f"input_{k}.npy") for k in INFO[case]["inputs"]}
    want = net.compile("numpy")(inputs)
    for options in ({"model": weights}, {"model": text, "weights": weights}):
        got = anylayer.read(**options, dialect=dialect, proto=proto).compile("numpy")(inputs)
        for k, array in want.items():
            assert_same(got[k], array, k)


@pytest.mark.one_per()
@wild
@pytest.mark.parametrize("file", FILES, ids=name)
def test_round_trip_of_public_files(file: Path, tmp_path: Path) -> None:
    dialect = next((d for part, d in DIALECTS.items() if part in file.name), None)
    network = anylayer.read(file, dialect=dialect).network
    if "template" in file.name:  # a template with placeholders instead of numbers ("num_output: cls3x")
        with pytest.raises(LayerError, match="'num_output' must be an integer, got cls3x"):
            rewritten(network, tmp_path)
        return
    _, weights, text = rewritten(network, tmp_path)
    assert_equal(network, anylayer.read(text, weights, dialect=dialect).network)


@pytest.mark.one_per(lambda case: case.parent.name)
@golden
@pytest.mark.parametrize("case", COMPUTED, ids=name)
def test_golden_networks_in_dialect_bvlc(case: Path, tmp_path: Path) -> None:
    """A layer that BVLC's Caffe lacks is written as other layers, or refused by name."""
    net = read(case)
    inputs = {k: np.load(case / f"input_{k}.npy") for k in INFO[case]["inputs"]}
    try:
        done = net.write(tmp_path / "net.prototxt", dialect="bvlc", verify=inputs)
    except LayerError as error:
        assert case.parent.name in BVLC_LACKS
        assert "deploy.prototxt" in str(error)
        assert "Caffe (dialect 'bvlc') has no " in str(error)
        return
    assert all(check.ok for check in done.checks)
