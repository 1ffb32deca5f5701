"""Networks of Darknet compute what OpenCV 4 computes, with the names that OpenCV gives to outputs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import anylayer
import anylayer.opencv as dnn
from anylayer.testing import assert_same
from tests.layers.darknet.recorded import recorded
from tests.readers.darknet.test_reader import YOLO

from .opencv4 import results_of

NET = "[net]\nwidth={}\nheight={}\nchannels=3\n"


def conv(filters: int, size: int = 3, stride: int = 1, activation: str = "mish", more: str = "") -> str:
    kernel = f"filters={filters}\nsize={size}\nstride={stride}\npad=1\n"
    return f"[convolutional]\nbatch_normalize=1\n{kernel}activation={activation}\n{more}"


LAST = "[convolutional]\nsize=1\nstride=1\npad=1\nfilters={}\nactivation=linear\n"
ANCHORS = "anchors=4,5, 8,6, 20,12, 30,40\nclasses=3\nnum=4\njitter=.3\nignore_thresh=.7\nrandom=1\n"
WHOLE = {
    "yolov3": YOLO,
    "yolov4": NET.format(64, 48)
    + conv(8)
    + conv(16, stride=2)
    + conv(8, 1)
    + "[route]\nlayers=-2\n"
    + conv(8, 1)
    + conv(8, 1, activation="swish")
    + conv(8, activation="leaky")
    + "[shortcut]\nfrom=-3\nactivation=linear\n"
    + "[route]\nlayers=-1,-6\n"
    + "[route]\nlayers=-1\ngroups=2\ngroup_id=1\n"
    + "".join(f"[maxpool]\nstride=1\nsize={k}\n[route]\nlayers={-2 * i - 2}\n" for i, k in enumerate((3, 5)))
    + "[route]\nlayers=-1,-2,-4\n"
    + LAST.format(16)
    + f"[yolo]\nmask=2,3\n{ANCHORS}scale_x_y=1.05\nnms_kind=greedynms\nbeta_nms=0.6\n"
    + "[route]\nlayers=-4\n[upsample]\nstride=2\n"
    + conv(8, 1, activation="leaky")
    + LAST.format(16)
    + f"[yolo]\nmask=0,1\n{ANCHORS}nms_threshold=0.3\n",
    "yolov2": NET.format(64, 32)
    + conv(8, activation="leaky")
    + "[maxpool]\nsize=2\nstride=2\n"
    + conv(16, activation="leaky")
    + "[maxpool]\nsize=2\nstride=2\n"
    + conv(16, activation="leaky")
    + "[route]\nlayers=-3\n"
    + conv(4, 1, activation="leaky")
    + "[reorg]\nstride=2\n[route]\nlayers=-1,-4\n"
    + LAST.format(24)
    + "[region]\nanchors=1,1.5, 2,1, 4,5\nclasses=3\ncoords=4\nnum=3\nsoftmax=1\nthresh=.2\nrescore=1\n",
    "classifier": NET.format(32, 32)
    + conv(8, activation="leaky")
    + "[maxpool]\nsize=2\nstride=2\n[dropout]\nprobability=.5\n"
    + "[convolutional]\nfilters=10\nsize=1\nstride=1\npad=1\nactivation=leaky\n"
    + "[avgpool]\n[softmax]\ngroups=1\n[cost]\ntype=sse\n",
}
"""Whole networks of the kinds that people have, made small."""

PROGRAM = """
import pickle, sys
from pathlib import Path
import cv2, numpy as np

results, SETTINGS = {}, ((0.2, 0.0), (0.21, 0.4), (0.3, 0.1), (0.99, 0.4))
for cfg in sorted(Path(sys.argv[1]).glob("*.cfg")):
    net = cv2.dnn.readNetFromDarknet(str(cfg), str(cfg.with_suffix(".weights")))
    net.setPreferableBackend(cv2.dnn.DNN_BACKEND_OPENCV)
    net.setInput(np.load(cfg.with_suffix(".npy")))
    names = net.getUnconnectedOutLayersNames()
    results[cfg.stem] = dict(zip(names, net.forward(names)))
    if cfg.stem in ("yolov2", "yolov4"):
        results[cfg.stem + " detections"] = detections = []
        for across in (False, True):
            model = cv2.dnn.DetectionModel(net)
            model.setNmsAcrossClasses(across)
            model.setInputParams(scale=1 / 255, size=(64, cfg.stem == "yolov4" and 48 or 32), swapRB=True)
            frame = np.random.default_rng(5).integers(0, 256, (90, 120, 3), dtype=np.uint8)
            detections += [model.detect(frame, confThreshold=c, nmsThreshold=n) for c, n in SETTINGS]
Path(sys.argv[1], "results.pickle").write_bytes(pickle.dumps(results))
"""
CASES = [case for case in recorded().values() if case.by_opencv]


def save_whole(folder: Path, name: str, text: str) -> None:
    """Write a network with random weights, and an input for it."""
    cfg = folder / f"{name}.cfg"
    cfg.write_text(text)
    net = anylayer.read(cfg).fill(1)
    weights = [np.asarray(blob, "<f4").tobytes() for node in net.network.nodes for blob in node.blobs]
    header = np.array([0, 2, 0], "<i4").tobytes() + np.array([0], "<u8").tobytes()
    cfg.with_suffix(".weights").write_bytes(header + b"".join(weights))
    (kind,) = net.inputs.values()
    assert kind is not None
    np.save(cfg.with_suffix(".npy"), np.random.default_rng(2).random(kind.shape, np.float32))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder of networks: whole ones by name, and those of one section by number."""
    folder = tmp_path_factory.mktemp("darknet")
    for name, text in WHOLE.items():
        save_whole(folder, name, text)
    for i, case in enumerate(CASES):
        (folder / f"{i}.cfg").write_text(case.cfg)
        (folder / f"{i}.weights").write_bytes(case.weights)
        np.save(folder / f"{i}.npy", case.x)
    return folder


@pytest.fixture(scope="module")
def opencv4(folder: Path) -> dict[str, Any]:
    """Return the outputs of all networks in OpenCV 4. Skip where there is none."""
    return results_of(PROGRAM, folder)


def forward(net: dnn.Net, folder: Path, name: str) -> dict[str, Any]:
    net.setInput(np.load(folder / f"{name}.npy"))
    names = net.getUnconnectedOutLayersNames()
    return dict(zip(names, net.forward(names)))


def paths(folder: Path, name: str) -> list[str]:
    return [str(folder / f"{name}.cfg"), str(folder / f"{name}.weights")]


@pytest.mark.parametrize("name", WHOLE)
def test_whole_networks_match_opencv(opencv4: dict[str, Any], folder: Path, name: str) -> None:
    got, want = forward(dnn.readNetFromDarknet(*paths(folder, name)), folder, name), opencv4[name]
    assert list(got) == list(want) and all(np.abs(y).max() > 0.01 for y in want.values())
    for output in want:
        assert_same(got[output], want[output], f"{name}, {output}", 1e-4)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_sections_match_opencv(opencv4: dict[str, Any], folder: Path, case: Any) -> None:
    number = str(CASES.index(case))
    buffers = [np.frombuffer(Path(path).read_bytes(), np.uint8) for path in paths(folder, number)]
    got, want = forward(dnn.readNetFromDarknet(*buffers), folder, number), opencv4[number]
    assert len(got) == len(want)
    for name, (one, other) in zip(want, zip(got.values(), want.values())):
        assert_same(one, other, f"{case.name}, {name}", 1e-4)


@pytest.mark.parametrize("suffix", [".onnx", ".xml", ".prototxt"])
@pytest.mark.parametrize("name", WHOLE)
def test_whole_networks_are_converted(folder: Path, tmp_path: Path, name: str, suffix: str) -> None:
    net = anylayer.read(*paths(folder, name))
    options = {"dialect": "ssd"} if suffix == ".prototxt" else {}
    if suffix == ".prototxt" and name in ("yolov2", "yolov4"):
        with pytest.raises(anylayer.AnyLayerError, match="no layer for NonMaxSuppression"):
            net.write(tmp_path / f"out{suffix}", **options)
        return
    assert {check.name for check in net.write(tmp_path / f"out{suffix}", **options).checks} == {*net.outputs}


def in_order(labels: Any, boxes: Any) -> Any:
    """Return rows of labels and boxes in an order that does not depend on scores, of which some almost tie."""
    rows = np.array([(label, *box) for label, box in zip(labels, boxes)]).reshape(-1, 5)
    return rows[np.lexsort(rows.T[::-1])]


@pytest.mark.parametrize("name", ["yolov2", "yolov4"])
def test_detections_match_opencv(opencv4: dict[str, Any], folder: Path, name: str) -> None:
    frame = np.random.default_rng(5).integers(0, 256, (90, 120, 3), dtype=np.uint8)
    wanted = iter(opencv4[f"{name} detections"])
    counts = []
    for across in (False, True):
        model = dnn.DetectionModel(*paths(folder, name)).setNmsAcrossClasses(across)
        model.setInputParams(scale=1 / 255, size=(64, 48 if name == "yolov4" else 32), swapRB=True)
        for threshold, overlap in ((0.2, 0.0), (0.21, 0.4), (0.3, 0.1), (0.99, 0.4)):
            labels, scores, boxes = model.detect(frame, threshold, overlap)
            want = next(wanted)
            counts.append(len(want[0]))
            assert np.array_equal(labels, want[0]), (len(labels), len(want[0]))
            np.testing.assert_allclose(scores, want[1], rtol=0, atol=1e-4)
            assert np.abs(in_order(labels, boxes) - in_order(want[0], want[2])).max(initial=0) <= 1
    assert counts[0] > counts[1] > 0 and counts[3] == 0


def test_files_and_buffers_are_read_by_suffix_and_by_name(folder: Path) -> None:
    cfg, weights = paths(folder, "yolov2")
    data = [Path(path).read_bytes() for path in (cfg, weights)]
    nets = [
        dnn.readNet(weights, cfg),
        dnn.readNet(cfg, weights),
        dnn.readNet("darknet", np.frombuffer(data[1], np.uint8), np.frombuffer(data[0], np.uint8)),
        dnn.readNetFromDarknet(bufferCfg=data[0], bufferModel=data[1]),
        dnn.readNetFromDarknet(cfgFile=cfg, darknetModel=weights),
    ]
    results = [forward(net, folder, "yolov2")["detection_out"] for net in nets]
    assert all(np.array_equal(results[0], other) for other in results[1:])
    with pytest.raises(dnn.error, match=r"the network is missing: give the path of a \.cfg"):
        dnn.readNetFromDarknet()


class Same:
    """Return the input."""

    def __init__(self, params: Any, blobs: Any) -> None:
        pass

    def getMemoryShapes(self, inputs: Any) -> Any:
        return inputs

    def forward(self, inputs: Any) -> Any:
        return inputs


def test_boxes_of_another_format_are_not_those_of_darknet(tmp_path: Path) -> None:
    path = tmp_path / "net.prototxt"
    shape = "input_shape { dim: 1 dim: 3 dim: 8 dim: 8 }"
    path.write_text(f'input: "data" {shape} layer {{ name: "y" type: "yolo" bottom: "data" top: "y" }}')
    dnn.dnn_registerLayer("yolo", Same)
    try:
        model = dnn.DetectionModel(path)
        with pytest.raises(dnn.error, match="the last layer must be one of DetectionOutput"):
            model.detect(np.zeros((8, 8, 3), np.uint8))
    finally:
        dnn.dnn_unregisterLayer("yolo")
