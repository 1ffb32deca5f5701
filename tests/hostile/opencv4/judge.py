"""Run a network in OpenCV 4 and in anylayer, and compare the outputs."""

from __future__ import annotations

import tempfile
import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import numpy as np

import anylayer
import anylayer.caffe as caffe
import anylayer.opencv as dnn
from anylayer.caffe.proto import caffe_pb2
from anylayer.errors import AnyLayerError
from anylayer.network import Array
from tests.writers.caffe.opencv4 import OpenCV4, OpenCVError

from .grammar import Drawn, Made, Shape, draw

TOLERANCE = 1e-4
"""The largest difference of outputs that counts as rounding, as a share of the largest value."""


EQUAL, REFUSED, OPENCV, ANYLAYER, DIFFERS = "equal", "both refuse", "OpenCV refuses", "anylayer refuses", "differs"
ENDS = (EQUAL, REFUSED, OPENCV, ANYLAYER, DIFFERS)


@dataclass
class Verdict:
    """What became of a network: one of ENDS.

    `reason` is a message or the difference. `layer` is the layer that causes it alone, where one does. `shapes`
    are those of its inputs, `again` compares OpenCV's results with those of another layer in anylayer.
    """

    what: str
    reason: str = ""
    layer: Made | None = None
    shapes: tuple[Shape, ...] = ()
    again: Callable[[Made], bool] | None = None


def make(seed: int) -> Drawn:
    """Return the network of a seed."""
    return draw(seed, shapes_of)


def shapes_of(drawn: Drawn) -> dict[str, Shape] | None:
    """Return the shapes of a network's blobs in the order of the file; None where anylayer refuses it."""
    with tempfile.TemporaryDirectory() as folder:
        try:
            nodes = _read(drawn, Path(folder)).inspect().nodes
        except AnyLayerError:
            return None
    found = dict(drawn.inputs)
    for node in nodes:
        if node.where in ("refused", "unknown", "unshaped"):
            return None
        for name, type_ in node.outputs:
            top = name.partition("@")[0]
            found.pop(top, None)
            found[top] = tuple(int(d) for d in type_.shape) if type_ is not None else ()
    return found


def _read(drawn: Drawn, folder: Path) -> anylayer.api.Net:
    path = folder / "net.prototxt"
    path.write_text(drawn.text)
    return anylayer.read(path, dialect="opencv")


def weights_of(drawn: Drawn) -> dict[str, list[Array]]:
    """Return random weights for each layer that has some; none where anylayer does not know their shapes."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "net.prototxt"
        path.write_text(drawn.text)
        try:
            net = caffe.Net(path, caffe.TEST, dialect="opencv", engine="numpy")
        except AnyLayerError:
            return {}
    rng = np.random.default_rng(drawn.seed)
    positive = {one.name for one in drawn.layers if one.type == "BatchNorm"}  # variances
    return {
        name: [rng.uniform(0.2 if name in positive else -1, 1, b.shape).astype(np.float32) for b in blobs]
        for name, blobs in net.params.items()
    }


def _files(drawn: Drawn, weights: Mapping[str, list[Array]], folder: Path) -> tuple[Path, Path | None]:
    """Write the files of a network with the weights of its layers."""
    message = caffe_pb2.NetParameter()
    for one in drawn.layers:
        if one.name in weights:
            layer = message.layer.add(name=one.name, type=one.type)
            layer.blobs.extend([caffe.io.array_to_blobproto(array) for array in weights[one.name]])
    text, model = folder / "net.prototxt", folder / "net.caffemodel"
    text.write_text(drawn.text)
    model.write_bytes(message.SerializeToString())
    return text, model if message.layer else None


def judge(drawn: Drawn, opencv: OpenCV4) -> Verdict:
    """Compare a network, and find the layer that causes a difference alone."""
    with tempfile.TemporaryDirectory() as name, warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        folder, weights = Path(name), weights_of(drawn)
        verdict = _compared(drawn, weights, drawn.arrays(), opencv, folder)
        if verdict.what in (EQUAL, REFUSED):
            return verdict
        for one, inputs in _alone(drawn, weights, folder):
            found = _compared(one, weights, inputs, opencv, folder)
            if found.what != EQUAL:
                (made,), shapes = one.layers, tuple(inputs[name].shape for name in one.layers[0].bottoms)
                return replace(
                    found, layer=made, shapes=shapes, again=partial(_agrees, one, weights, inputs, opencv)
                )
    return verdict


def _agrees(
    one: Drawn, weights: Mapping[str, list[Array]], inputs: Mapping[str, Array], opencv: OpenCV4, other: Made
) -> bool:
    """Return whether anylayer treats another layer as OpenCV treats the network's."""
    with tempfile.TemporaryDirectory() as name, warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        theirs = replace(one, layers=[other])
        return _compared(one, weights, inputs, opencv, Path(name), theirs).what in (EQUAL, REFUSED)


def _alone(
    drawn: Drawn, weights: Mapping[str, list[Array]], folder: Path
) -> Iterator[tuple[Drawn, dict[str, Array]]]:
    """Yield each layer as a network of its own, with the values that it reads in the whole network."""
    known = drawn.arrays()
    for layer in drawn.layers:
        inputs = {f"in_{name}": known[name] for name in layer.bottoms}
        tops = [f"out{i}" for i in range(len(layer.tops))]
        alone = replace(layer, bottoms=[f"in_{name}" for name in layer.bottoms], tops=tops)
        one = Drawn(drawn.seed, {name: array.shape for name, array in inputs.items()}, [alone])
        yield one, inputs
        try:
            found = _own(one, weights, inputs, folder)[1]
        except AnyLayerError:
            return
        known.update({top: found[name] for top, name in zip(layer.tops, tops)})


def _own(
    drawn: Drawn, weights: Mapping[str, list[Array]], inputs: Mapping[str, Array], folder: Path
) -> tuple[dict[str, Array], dict[str, Array]]:
    """Return the outputs by OpenCV's names of their layers, and all blobs, as anylayer computes them."""
    net = dnn.readNetFromCaffe(*map(str, filter(None, _files(drawn, weights, folder))))
    table = net._table
    found = net.net.compile("numpy", outputs=[v for e in table.entries[1:] for v in e.values])(dict(inputs))
    return {entry.name: found[entry.values[0]] for entry in table.outputs}, found


def _compared(
    drawn: Drawn,
    weights: Mapping[str, list[Array]],
    inputs: Mapping[str, Array],
    opencv: OpenCV4,
    folder: Path,
    other: Drawn | None = None,
) -> Verdict:
    """Compare OpenCV's outputs of a network with anylayer's of the same one, or of another."""
    refused: dict[str, str] = {}
    want: dict[str, Array] = {}
    got: dict[str, Array] = {}
    try:
        got = _own(other or drawn, weights, inputs, folder)[0]
    except AnyLayerError as error:
        refused["anylayer"] = str(error)
    try:
        want = opencv.run(*_files(drawn, weights, folder), inputs)
        del want[""]
    except OpenCVError as error:
        refused["OpenCV"] = str(error)
    if refused:
        what = REFUSED if len(refused) == 2 else OPENCV if "OpenCV" in refused else ANYLAYER
        return Verdict(what, "; ".join(refused.values()))
    difference = _difference(got, want)
    return Verdict(DIFFERS, difference) if difference else Verdict(EQUAL)


def _difference(got: Mapping[str, Array], want: Mapping[str, Array]) -> str:
    """Return how two sets of outputs differ, "" where they agree."""
    if set(got) != set(want):
        return f"outputs {sorted(got)}, OpenCV has {sorted(want)}"
    for name, array in want.items():
        own = np.asarray(got[name], np.float32)
        if own.shape != array.shape:
            return f"shape {own.shape}, OpenCV has {array.shape}"
        largest = max(1e-3, float(np.abs(own[np.isfinite(own)]).max(initial=0)))
        if not np.allclose(own, array, rtol=0, atol=TOLERANCE * largest, equal_nan=True):
            with np.errstate(all="ignore"):
                return f"values differ by {np.nanmax(np.abs(own - array)) / largest:.2g} of the largest"
    return ""
