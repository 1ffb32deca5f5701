"""python -m tests.convert.networks [NAME...]: write whole networks with open sizes, and print their errors.

These are the networks of the benchmarks and those of ../shared/models. Each is written once per format, and
compared with its layers in NumPy at five sizes that were not traced: ONNX files in ONNX Runtime, IR in OpenVINO.
Detections of random weights depend on differences in the last digit, and random weights may saturate a softmax.
Such a network, if its outputs differ or are constant, is written up to the values before them.
"""

from __future__ import annotations

import copy
import dataclasses
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.networks import NETWORKS
from benchmarks.parts.networks import prepare

import anylayer
from anylayer.errors import AnyLayerError

_RANGES = "48<=H<=200", "48<=W<=200"
_SIZES: tuple[tuple[int | str, str, str], ...] = (
    ("N", *_RANGES),
    ("N", "32*h", "32*w"),
    (1, *_RANGES),
    (1, "32*h", "32*w"),
    (1, "200<=H<=400", "200<=W<=400"),
    (1, "H", "W"),
)
"""The batch, height and width to leave open, tried in this order. The last two are for larger pictures."""


@dataclass(frozen=True, slots=True)
class Row:
    """A network in a format: the shape that is open, the number of sizes compared, and the largest relative error.

    `problem` says why no shape is open. `end` names the values that the network is written up to, if it is cut.
    """

    network: str
    format: str
    shape: str = ""
    sizes: int = 0
    error: float = 0.0
    problem: str = ""
    end: str = ""

    def __str__(self) -> str:
        right = f"{self.shape}: right at {self.sizes} sizes, off by {self.error:.1g}"
        right += f" (up to {self.end})" if self.end else ""
        return f"{self.network:20} {self.format:9} {self.problem or right}"


def rows(names: Sequence[str] = ()) -> Iterator[Row]:
    """Yield a row for each of the named networks (all by default) whose files exist, and each format."""
    for source in NETWORKS:
        if (names and source.name not in names) or (source.make is None and not source.path.is_file()):
            continue
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            net = anylayer.read(*prepare(source, folder), dialect=source.dialect)
            for format, suffix in (("onnx", "onnx"), ("openvino", "xml")):
                row = _row(source.name, net, format, folder / f"open.{suffix}")
                if row.problem and source.outputs:
                    cut = copy.copy(net)
                    cut.network = dataclasses.replace(net.network, outputs={n: n for n in source.outputs})
                    row = _row(source.name, cut, format, folder / f"open.{suffix}", ", ".join(source.outputs))
                yield row


def _row(name: str, net: anylayer.api.Net, format: str, path: Path, end: str = "") -> Row:
    problem = ""
    (given, kind), *_ = net.inputs.items()
    channels = kind.shape[1] if kind is not None else 3
    for n, h, w in _SIZES:
        shape = (n, channels, h, w)
        try:
            done = net.write(path, format, shapes={given: shape})
        except AnyLayerError as error:
            problem = problem or str(error)
            continue
        sizes = {tuple(c.sizes.items()) for c in done.checks if c.sizes is not None}
        worst = max(c.error / c.scale for c in done.checks)
        if not worst:
            return Row(name, format, problem="no value differs in the last digit, as if the outputs were constant")
        return Row(name, format, str(shape).replace("'", ""), len(sizes), worst, end=end)
    return Row(name, format, problem=problem)


def main() -> None:
    """Print a line for each network and format."""
    for row in rows(sys.argv[1:]):
        print(row, flush=True)


if __name__ == "__main__":
    main()
