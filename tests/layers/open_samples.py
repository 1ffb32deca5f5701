"""The inputs on which tests.layers.open_sizes tries the layers of each format: those of the format's own tests."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

import anylayer
from anylayer.api import Net
from anylayer.errors import AnyLayerError
from anylayer.network import Array, Network, TensorType
from tests.layers.harness import Case, cases

FORMATS = {
    "caffe": "Caffe",
    "tensorflow": "TensorFlow",
    "keras": "Keras",
}


@dataclass(frozen=True)
class Sample:
    """A network that consists of one layer of a type, and its inputs."""

    type: str
    net: Net
    inputs: list[Array]
    tolerance: float | None = None

    @property
    def names(self) -> list[str]:
        """The names of the inputs."""
        return list(self.net.network.inputs)

    @property
    def is_channels_last(self) -> bool:
        """Whether layers of this format take (N, H, W, C) by default."""
        return self.net.network.format in ("tensorflow", "keras")


def samples(format: str) -> Iterator[Sample]:
    """Yield the samples of a format. A network that cannot be read is left out."""
    with tempfile.TemporaryDirectory() as folder:
        yield from _tensorflow(Path(folder)) if format == "tensorflow" else _of_cases(format)


def _of_cases(format: str) -> Iterator[Sample]:
    for _, case in cases():
        if case.format == format and case.inputs:
            yield Sample(case.type, _net(case), list(case.inputs), case.tolerance)


def _net(case: Case) -> Net:
    node = case.node()
    types: dict[str, TensorType | None] = {
        f"in{i}": TensorType.of(x.shape, x.dtype) for i, x in enumerate(case.inputs)
    }
    outputs = {name: name for name in node.outputs}
    return Net(Network("case", case.format, types, [node], outputs, dialect=case.dialect), {})


def _tensorflow(folder: Path) -> Iterator[Sample]:
    from tests.layers.tensorflow.recorded import recorded

    for i, case in enumerate(recorded().values()):
        path = folder / f"{i}.pb"  # a file of its own: its constants may be mapped into memory
        path.write_bytes(case.graph)
        try:
            net = anylayer.read(path)
        except AnyLayerError:
            continue
        arrays = {f"in{j}": np.asarray(x) for j, x in enumerate(case.inputs)}
        if {*arrays} == {*net.network.inputs} and None not in net.network.inputs.values():
            yield Sample(case.name.split()[0], net, [arrays[name] for name in net.network.inputs])
