"""Programs that run on OpenCV 4's dnn and on anylayer.opencv, for comparison of their results.

Each program takes the module (with `error`, `dnn_registerLayer` and `dnn_unregisterLayer`) and a folder with the
files that it reads, and returns a dict of results. `python programs.py FOLDER` runs all of them with OpenCV and
writes what they return to FOLDER/results.pickle.
"""

from __future__ import annotations

import pickle
import sys
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

Results = dict[str, Any]

SIZES = {
    "small": (1, 3, 16, 20),
    "crop": (1, 2, 9, 11),
    "column": (2, 3, 4),
    "pools": (1, 3, 16, 20),
    "lenet": (2, 1, 28, 28),
    "squeezenet_v1.1": (1, 3, 227, 227),
    "mobilenet_ssd": (1, 3, 300, 300),
    "mtcnn_det2": (3, 3, 24, 24),
}


def noise(*shape: int, seed: int = 0) -> Any:
    """Return float32 noise."""
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def picture(height: int, width: int, channels: int = 3, seed: int = 0) -> Any:
    """Return a uint8 picture of noise."""
    return np.random.default_rng(seed).integers(0, 256, (height, width, channels), dtype=np.uint8)


def nets(dnn: Any, folder: Path) -> dict[str, Any]:
    """Return the networks of the folder by name."""
    texts = sorted(folder.glob("*.prototxt"))
    return {t.stem: dnn.readNetFromCaffe(str(t), str(t.with_suffix(".caffemodel"))) for t in texts}


def layers(dnn: Any, folder: Path) -> Results:
    """Return what networks say about their layers."""
    found: Results = {}
    for name, net in nets(dnn, folder).items():
        names = net.getLayerNames()
        every = [net.getLayer(i) for i in range(len(names) + 1)]
        found[name] = {
            "names": list(names),
            "types": [layer.type for layer in every],
            "blobs": [list(layer.blobs) for layer in every],
            "numbers": [net.getLayerId(one) for one in [*names, "_input", "missing"]],
            "by name": [net.getLayer(one).name for one in names],
            "outputs": list(net.getUnconnectedOutLayersNames()),
            "output numbers": net.getUnconnectedOutLayers(),
            "all types": list(net.getLayerTypes()),
            "count": net.getLayersCount("Convolution"),
            "index": [every[0].outputNameToIndex(n) for n in ("data", "im_info")],
            "empty": net.empty(),
        }
    return found


def costs(dnn: Any, folder: Path) -> Results:
    """Return the shapes and the memory of networks."""
    found: Results = {}
    for name, net in nets(dnn, folder).items():
        if name == "crop":
            continue  # it has two inputs, and OpenCV cannot tell its shapes before they are set
        shape = list(SIZES[name])
        numbers, inputs, outputs = net.getLayersShapes(shape)
        plain = [[tuple(map(int, s)) for s in row] for rows in (inputs, outputs) for row in rows]
        found[name] = {"memory": net.getMemoryConsumption(shape), "numbers": numbers, "shapes": plain}
    return found


def runs(dnn: Any, folder: Path) -> Results:
    """Return outputs of layers."""
    found: Results = {}
    for name, net in nets(dnn, folder).items():
        if name == "crop":
            continue
        net.setInput(noise(*SIZES[name]))
        outputs = list(net.getUnconnectedOutLayersNames())
        some = list(net.getLayerNames())[: 4 if name == "small" else 1]
        found[name] = {
            "last": net.forward(),
            "outputs": list(net.forward(outputs)),
            "first layers": [net.forward(one) for one in some],
            "all of some": [list(row) for row in net.forwardAndRetrieve(some)],
        }
    return found


def inputs(dnn: Any, folder: Path) -> Results:
    """Return outputs for inputs that setInput scales, of several shapes and dtypes."""
    net = nets(dnn, folder)["small"]
    found: Results = {}
    image = picture(16, 20).transpose(2, 0, 1)[None]
    for key, (blob, arguments) in {
        "scale": (noise(*SIZES["small"]), {"scalefactor": 0.5}),
        "mean": (noise(*SIZES["small"]), {"scalefactor": 0.25, "mean": (1.0, 2.0, 3.0)}),
        "bytes": (np.ascontiguousarray(image), {"scalefactor": 1 / 255}),
        "batch": (noise(3, 3, 16, 20), {}),
        "size": (noise(1, 3, 10, 14), {"name": "data"}),
        "none": (noise(*SIZES["small"]), {"name": None, "scalefactor": None, "mean": None}),
    }.items():
        net.setInput(blob, **arguments)
        found[key] = net.forward("relu")
    return found


def custom(dnn: Any, folder: Path) -> Results:
    """Return the output of a layer that crops from the centre, registered after the network was read."""

    class Centre:
        def __init__(self, params: Any, blobs: Any) -> None:
            self.start = (0, 0)

        def getMemoryShapes(self, inputs: Any) -> Any:
            large, small = inputs
            self.start = ((large[2] - small[2]) // 2, (large[3] - small[3]) // 2)
            return [[*large[:2], *small[2:]]]

        def forward(self, inputs: Any) -> Any:
            (y, x), (height, width) = self.start, inputs[1].shape[2:]
            return [inputs[0][:, :, y : y + height, x : x + width]]

    net = nets(dnn, folder)["crop"]
    dnn.dnn_registerLayer("Crop", Centre)
    net.setInput(noise(*SIZES["crop"]), "data")
    net.setInput(noise(1, 2, 4, 5), "other")
    found = net.forward()
    dnn.dnn_unregisterLayer("Crop")
    return {"centre": found}


def weights(dnn: Any, folder: Path) -> Results:
    """Return weights and the outputs before and after they are replaced."""
    net = nets(dnn, folder)["small"]
    net.setInput(noise(*SIZES["small"]))
    before = net.forward("conv")
    kernel, bias = net.getParam("conv", 0), net.getParam("conv", 1)
    other = nets(dnn, folder)["small"]
    other.setParam("conv", 0, kernel * 2)
    other.setParam("conv", 1, bias + 1)
    other.setInput(noise(*SIZES["small"]))
    return {"before": before, "kernel": kernel, "bias": bias, "after": other.forward("conv")}


def models(dnn: Any, folder: Path) -> Results:
    """Return the answers of the high-level classes."""
    frame = picture(90, 120)
    texts = {t.stem: (str(t.with_suffix(".caffemodel")), str(t)) for t in folder.glob("*.prototxt")}
    classes = dnn.ClassificationModel(*texts["small"])
    classes.setInputParams(0.01, (20, 16), (10, 20, 30), True, True)
    classes.setOutputNames(["prob"])
    number, score = classes.classify(frame)
    classes.setEnableSoftmaxPostProcessing(True)
    found: Results = {"class": number, "score": score, "softmax": classes.classify(frame)[1]}
    found["prediction"] = list(classes.predict(frame))
    found["size of the file"] = list(dnn.ClassificationModel(*texts["small"]).predict(frame))
    pixels = dnn.SegmentationModel(*texts["small"])
    pixels.setOutputNames(["conv"])
    pixels.setInputSize((20, 16)).setInputScale(0.02).setInputSwapRB(True)
    found["mask"] = pixels.segment(frame)
    points = dnn.KeypointsModel(*texts["small"])
    points.setOutputNames(["conv"])
    points.setInputSize((20, 16)).setInputMean((5, 6, 7)).setInputCrop(True)
    found["points"] = np.reshape(points.estimate(frame, 1.0), (-1, 2))
    if "mobilenet_ssd" in texts:
        detector = dnn.DetectionModel(dnn.readNet(*texts["mobilenet_ssd"]))
        detector.setInputParams(1 / 127.5, (300, 300), (127.5, 127.5, 127.5))
        for threshold in (0.5, 2.0):
            ids, scores, boxes = detector.detect(frame, confThreshold=threshold)
            found[f"detections {threshold}"] = [np.array(one) for one in (ids, scores)]
            found[f"boxes {threshold}"] = np.array(boxes)
    return found


def boxes_kept(dnn: Any, folder: Path) -> Results:
    """Return the indices of boxes that are kept."""
    found: Results = {}
    for seed in range(40):
        rng = np.random.default_rng(seed)
        count = int(rng.integers(1, 30))
        boxes, scores = rng.random((count, 4)) * 20, rng.random(count).astype(np.float32)
        if seed % 2:
            boxes, scores = np.round(boxes), np.round(scores, 1)
        limit, rest = float(rng.random()), {"eta": float(rng.choice([1, 0.7])), "top_k": int(rng.choice([0, 5]))}
        pairs = boxes.tolist(), scores.tolist()
        found[f"plain {seed}"] = dnn.NMSBoxes(*pairs, 0.2, limit, **rest)
        found[f"batched {seed}"] = dnn.NMSBoxesBatched(*pairs, [i % 3 for i in range(count)], 0.2, limit, **rest)
        whole = [[int(v) for v in box] for box in boxes.tolist()], scores.tolist()
        for method in (1, 2):
            found[f"soft {method} {seed}"] = list(dnn.softNMSBoxes(*whole, 0.2, limit, method=method))
        places = (rng.random((count, 4)) * 20).tolist()
        turned = [((x, y), (w + 1, h + 1), 7.0 * i) for i, (x, y, w, h) in enumerate(places)]
        found[f"none {seed}"] = dnn.NMSBoxes(*pairs, 0.2, limit, None, None)
        found[f"rotated {seed}"] = dnn.NMSBoxesRotated(turned, scores.tolist(), 0.2, limit)
    return found


def images(dnn: Any, folder: Path) -> Results:
    """Return blobs of pictures, which must be equal to the last bit."""
    found: Results = {}
    sizes = [(8, 8), (16, 20), (17, 21), (32, 40), (33, 41), (5, 90), (90, 5), (300, 200)]
    for i, (height, width) in enumerate(sizes):
        image = picture(height, width, (1, 3, 4)[i % 3], seed=i)
        for crop in (False, True):
            found[f"{height}x{width} {crop}"] = dnn.blobFromImage(
                image, 1 / 127.5, (20, 16), (104.006, 116.67, 122.68), swapRB=bool(i % 2), crop=crop
            )
    pair = [picture(20, 30, seed=7), picture(44, 31, seed=8)]
    found["two"] = dnn.blobFromImages(pair, 0.5, (15, 10), 3.0)
    found["bytes"] = dnn.blobFromImage(pair[0], ddepth=0)
    found["none given"] = dnn.blobFromImage(pair[0], None, None, None, None, None, None)
    found["no mean"] = dnn.blobFromImage(pair[0], 0.5, (15, 10), None, swapRB=None)
    nothing = dnn.Image2BlobParams()
    nothing.mean = nothing.scalefactor = nothing.size = (1, 2)
    nothing.mean = nothing.scalefactor = nothing.size = None
    nothing.borderValue, nothing.borderValue = (1, 2, 3, 4), 5
    found["kept"] = [nothing.mean, nothing.scalefactor, nothing.size, nothing.borderValue]
    for mode in (0, 1, 2):
        params = dnn.Image2BlobParams()
        params.scalefactor, params.size, params.mean, params.swapRB = (0.5, 0.25, 2), (24, 18), (1, 2, 3), True
        params.paddingmode, params.borderValue = mode, (9, 8, 7)
        for layout in (2, 4):
            params.datalayout = layout
            found[f"params {mode} {layout}"] = dnn.blobFromImagesWithParams(pair, params)
        rects = np.random.default_rng(mode).integers(0, 40, (9, 4)).astype(np.int32)
        found[f"rects {mode}"] = params.blobRectsToImageRects(rects, (33, 47))
        found[f"rect {mode}"] = tuple(params.blobRectToImageRect(rects[0].tolist(), (33, 47)))
    found["back"] = list(dnn.imagesFromBlob(noise(2, 3, 4, 5)))
    found["gray back"] = list(dnn.imagesFromBlob(noise(2, 1, 4, 5)))
    return found


def refusals(dnn: Any, folder: Path) -> Results:
    """Return which calls raise OpenCV's exception."""
    net = nets(dnn, folder)["small"]
    calls: dict[str, Callable[[], Any]] = {
        "missing file": lambda: dnn.readNetFromCaffe("missing.prototxt"),
        "unknown framework": lambda: dnn.readNet("model.unknown"),
        "missing layer": lambda: net.getLayer("missing"),
        "missing number": lambda: net.getLayer(99),
        "missing output": lambda: net.forward("missing"),
        "output of the input": lambda: net.forward("_input"),
        "missing input": lambda: net.setInput(noise(1, 3, 16, 20), "missing"),
        "empty net": lambda: dnn.Net().forward(),
        "no images": lambda: dnn.blobFromImages([]),
        "two channels": lambda: dnn.blobFromImage(picture(4, 4, 2)),
        "scaled bytes": lambda: dnn.blobFromImage(picture(4, 4), 2.0, ddepth=0),
        "negative threshold": lambda: dnn.NMSBoxes([[0, 0, 1, 1]], [0.5], -1, 0.5),
        "scores without boxes": lambda: dnn.NMSBoxes([[0, 0, 1, 1]], [0.5, 0.6], 0.1, 0.5),
        "no error": lambda: net.getLayerNames(),
    }
    found: Results = {}
    for name, call in calls.items():
        try:
            call()
            found[name] = False
        except dnn.error:
            found[name] = True
    return found


def values(dnn: Any, folder: Path) -> Results:
    """Return what values of params are, and as which numbers and strings they are read."""
    made: dict[str, Callable[[], Any]] = {
        repr(one): lambda one=one: dnn.DictValue(one)
        for one in (
            *(3, -7, 2**31 - 1, 2**31, -(2**31) - 1, 2**40, 10**400, 3.0, 2.5, float("nan"), "abc", "12", "1.5e3"),
            *(" -4x", "0x10", "", None, b"a", True, np.True_, [1], ["a"], (1,), {}, 1j, np.int32(3), np.uint8(7)),
            *(np.int64(2**40), np.float32(1.5), np.float16(2), np.array(3), np.array([3]), np.str_("x"), object),
        )
    }
    for name, given in {"int": {"i": 3}, "real": {"p": 3}, "string": {"s": "a"}, "none": {"s": None}}.items():
        made[name] = lambda given=given: dnn.DictValue(**given)
    for name, given in {
        "other": {"x": 3},
        "word": {"i": "a"},
        "float": {"i": 2.0},
        "two": {"i": 1, "p": 2},
    }.items():
        made[name] = lambda given=given: dnn.DictValue(**given)
    made["nothing"], made["two values"] = dnn.DictValue, lambda: dnn.DictValue(1, 2)
    found: Results = {}
    for name, make in made.items():
        try:
            value = make()
        except dnn.error as error:
            found[name] = ["no value", error.code]
            continue
        found[name] = [value.isInt(), value.isReal(), value.isString()]
        for method in ("getIntValue", "getRealValue", "getStringValue"):
            for index in ((), (0,), (None,), (1,), (-2,), (True,), (0.5,)):
                if method == "getIntValue" and value.isReal() and abs(value.getRealValue()) >= 2**31:
                    continue  # OpenCV 4 and 5 answer with different numbers
                try:
                    found[name].append(repr(getattr(value, method)(*index)))
                except dnn.error:
                    found[name].append("refused")
                except TypeError:
                    found[name].append("no index")
    return found


PROGRAMS = [layers, costs, runs, inputs, custom, weights, models, boxes_kept, images, refusals, values]
EXACT = ("images", "boxes_kept", "refusals", "layers", "costs", "values")
"""Programs whose results are equal to the last bit."""


def main(folder: Path) -> None:
    """Run all programs with OpenCV."""
    import cv2

    if not hasattr(cv2.dnn, "readNetFromCaffe"):
        sys.exit(f"no Caffe reader in OpenCV {cv2.__version__}")
    cv2.setNumThreads(1)
    own = {name: getattr(cv2, name) for name in ("error", "dnn_registerLayer", "dnn_unregisterLayer")}
    dnn = types.SimpleNamespace(**vars(cv2.dnn), **own)
    results = {program.__name__: program(dnn, folder) for program in PROGRAMS}
    (folder / "results.pickle").write_bytes(pickle.dumps(results))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
