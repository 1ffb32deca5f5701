"""python -m tests.convert.networks [NAME...]: write whole networks with open sizes, and print their errors.

These are the networks of the benchmarks, and models/ and prototxt/ of the reference data. Each is written once per
format, and compared with its layers in NumPy at five sizes that were not traced: ONNX files in ONNX Runtime,
IR in OpenVINO. A network whose height and width are fixed, for example by an InnerProduct, is written with an open
batch, and the reason is printed. Random weights may saturate a softmax. Such a network, if its outputs differ or
are constant, is written up to the values before them.
"""

from __future__ import annotations

import copy
import dataclasses
import re
import sys
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from benchmarks.networks import DETECTORS, NETWORKS, Source
from benchmarks.parts.networks import prepare
from tools.reference import REFERENCE

import anylayer
from anylayer.compile.inputs import needed_nodes
from anylayer.errors import AnyLayerError, ConversionError
from anylayer.network import TensorType
from anylayer.numerics import normal_noise
from anylayer.runtime.run import NumpyRunner

_RANGES = "48<=H<=200", "48<=W<=200"
_SIZES: tuple[tuple[int | str, int | str, int | str], ...] = (
    ("N", *_RANGES),
    ("N", "32*h", "32*w"),
    (1, *_RANGES),
    (1, "32*h", "32*w"),
    (1, "200<=H<=400", "200<=W<=400"),
    (1, "H", "W"),
)
"""The batch, height and width to leave open, tried in this order. The last two are for larger pictures."""


_DIALECTS = {"MobileNet-YOLO": "mobilenet-yolo", "caffe-yolov2": "yolov2", "caffe-yolov3": "darknet2caffe"}
"""The dialects of repositories whose files have ambiguous layers."""
_MOVES = ("Concat", "Flatten", "Permute", "Reshape", "Sigmoid", "Softmax")
"""The types of layers between these convolutions and the detections."""
_LARGEST = 4.0
"""The largest value of maps that are decoded to boxes."""


@dataclass(frozen=True, slots=True)
class Row:
    """A network in a format: the shape that is open, the number of sizes compared, and the largest relative error.

    `problem` says why the height and width are not open. `end` names the values that the network is written up to,
    if it is cut.
    """

    network: str
    format: str
    shape: str = ""
    sizes: int = 0
    error: float = 0.0
    problem: str = ""
    end: str = ""

    def __str__(self) -> str:
        right = f"{self.shape}: right at {self.sizes} sizes, error {self.error:.1g}" if self.shape else ""
        right += f" (up to {self.end})" if self.end else ""
        reason = f"{'other sizes are fixed: ' if right else ''}{self.problem}" if self.problem else ""
        return f"{self.network:30} {self.format:9} {'; '.join(filter(None, (right, reason)))}"


def sources() -> list[Source]:
    """Return the networks, each text once."""
    found = [s for s in (*NETWORKS, *DETECTORS) if s.make is not None or s.path.is_file()]
    known = {s.path.read_text() for s in found if s.make is None}
    for path in sorted([*REFERENCE.glob("models/*/*.prototxt"), *REFERENCE.glob("prototxt/*.prototxt")]):
        text = path.read_text()
        if text not in known:
            known.add(text)
            parts = path.stem.split("__")
            name = path.parent.name if path.stem == "deploy" else "/".join(dict.fromkeys([parts[0], *parts[-2:]]))
            weights = "weights.caffemodel" if (path.parent / "weights.caffemodel").is_file() else ""
            name = name.partition("+")[2] or name
            dialect = _DIALECTS.get(name.partition("/")[0])
            found.append(Source(name, str(path.relative_to(REFERENCE)), weights, dialect=dialect))
    return found


def rows(names: Sequence[str] = ()) -> Iterator[Row]:
    """Yield a row for each network whose name contains one of `names` (all by default), and each format."""
    for source in sources():
        if names and not any(name in source.name for name in names):
            continue
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            try:
                net = anylayer.read(*prepare(source, folder), dialect=source.dialect)
                if not source.weights:
                    _normalize(net)
                    _limit_maps(net)
            except AnyLayerError as error:
                yield Row(source.name, "", problem=_short(error))
                continue
            for format, suffix in (("onnx", "onnx"), ("openvino", "xml")):
                row = _row(source.name, net, format, folder / f"open.{suffix}")
                if not row.shape and source.outputs:
                    end = f"{', '.join(source.outputs)}, because {row.problem}"
                    row = _row(source.name, _up_to(net, source.outputs), format, folder / f"open.{suffix}", end)
                yield row


def _up_to(net: anylayer.api.Net, values: Iterable[str]) -> anylayer.api.Net:
    """Return a network that computes these values."""
    cut = copy.copy(net)
    cut.network = dataclasses.replace(net.network, outputs={n: n for n in values})
    return cut


def _normalize(net: anylayer.api.Net) -> None:
    """Give each BatchNorm the statistics of its input. Values in deep networks grow with random statistics."""
    network = net.network
    if not any(node.type == "BatchNorm" and node.blobs for node in network.nodes):
        return
    kinds = {name: kind for name, kind in net.inputs.items() if kind is not None}
    arrays = dict(zip(kinds, normal_noise([*kinds.values()])))
    steps = NumpyRunner(network, net.definitions, network.outputs).steps(arrays)
    for node, values in zip(needed_nodes(network, network.outputs), steps):
        if node.type == "BatchNorm" and node.blobs:
            x = values[node.inputs[0]]
            axes = (0, *range(2, x.ndim))
            found = x.mean(axes), x.var(axes), np.ones(1)
            node.blobs = [y.astype(b.dtype).reshape(b.shape) for y, b in zip(found, node.blobs)]


def _limit_maps(net: anylayer.api.Net) -> None:
    """Scale the convolutions whose maps become boxes and scores, so that their values are at most _LARGEST.

    Sides of boxes are exponential functions of these values, which with random weights are 40 and more.
    """
    producers = {name: node for node in net.network.nodes for name in node.outputs}
    maps = {}
    read = [name for n in net.network.nodes if n.type.endswith("DetectionOutput") for name in n.inputs]
    while read:
        name = read.pop()
        node = producers.get(name)
        if node is not None and node.type == "Convolution":
            maps[name] = node
        elif node is not None and node.type in _MOVES:
            read += node.inputs
    shapes = {name: kind.shape for name, kind in net.inputs.items() if kind is not None}
    if not maps:
        return
    noise = normal_noise([TensorType.of(shape) for shape in shapes.values()])
    values = _up_to(net, maps).compile("numpy", shapes=shapes)(dict(zip(shapes, noise)))
    for name, node in maps.items():
        times = np.float32(_LARGEST / np.abs(values[name]).max())
        node.blobs = [np.asarray(blob * times) for blob in node.blobs]


def _row(name: str, net: anylayer.api.Net, format: str, path: Path, end: str = "") -> Row:
    problem = ""
    (given, kind), *_ = net.inputs.items()
    if kind is None or len(kind.shape) != 4:
        return Row(name, format, problem=f"input '{given}' has no height and width")
    _, channels, *fixed = kind.shape
    for n, h, w in (*_SIZES, ("N", *fixed)):
        shape = (n, channels, h, w)
        try:
            done = net.write(path, format, shapes={given: shape})
        except AnyLayerError as error:
            if isinstance(error, ConversionError):  # the sizes are open, but the values differ
                problem = _short(error)
                break
            problem = problem or _short(error)
            continue
        sizes = {tuple(c.sizes.items()) for c in done.checks if c.sizes is not None}
        worst = max(c.error / c.scale for c in done.checks)
        if not worst and len(net.network.nodes) > 1:
            return Row(name, format, problem="no value differs in the last digit, as if the outputs were constant")
        text = str(shape).replace("'", "")
        return Row(name, format, text, len(sizes), worst, problem if h == fixed[0] else "", end)
    return Row(name, format, problem=problem)


def _short(error: AnyLayerError) -> str:
    """Return a message without the path of the file, and at most 300 characters."""
    return re.sub(r"/\S*/", "", str(error))[:300]


def main() -> None:
    """Print a line for each network and format."""
    for row in rows(sys.argv[1:]):
        print(row, flush=True)


if __name__ == "__main__":
    main()
