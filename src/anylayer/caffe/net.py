"""Net: a Caffe network whose weights are set by layer names, as in pycaffe."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from anylayer import api
from anylayer.compile.nodes import trace_nodes
from anylayer.errors import InputError, nearest, need
from anylayer.layer import Bound
from anylayer.network import Array, Node
from anylayer.runtime.model import Model
from anylayer.writers.caffe.caffemodel import write_caffemodel
from anylayer.writers.caffe.dialects import dialect_of
from anylayer.writers.caffe.from_nodes import net_from_nodes
from anylayer.writers.caffe.layers import CaffeNet

TRAIN, TEST = 0, 1
"""The numbers of the phases, for `include=dict(phase=TRAIN)`."""


@dataclass(slots=True)
class Blob:
    """An array that is read and written in place: `blob.data[...] = array`."""

    data: Array

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of `data`."""
        return self.data.shape

    def reshape(self, *shape: int) -> None:
        """Replace `data` by zeros of another shape, unless it has this shape already."""
        if shape != self.data.shape:
            self.data = np.zeros(shape, self.data.dtype)


class _ByName(dict[str, Any]):
    """A dict that raises an InputError with its keys for a missing key. `what` says what the keys are."""

    def __init__(self, what: str, values: dict[str, Any]) -> None:
        super().__init__(values)
        self._what = what

    def __missing__(self, name: str) -> Any:
        raise InputError(
            f"there is no {self._what} '{name}'{nearest(str(name), self)}; there are: {', '.join(self)}"
        )


class Net(api.Net):
    """A Caffe network with pycaffe's interface, `caffe.Net("deploy.prototxt", caffe.TEST)`. It is an anylayer.Net,
    too.

    `params["conv1"][0].data[...] = array` sets a weight. Without a weights file, weights have the values of their
    fillers, or zeros where a filler is random. `blobs["data"].data[...] = array` sets an input for `forward()`.
    `save` writes the weights as a .caffemodel.
    """

    def __init__(
        self,
        network_file: str | Path,
        *args: Any,
        weights: str | Path | None = None,
        phase: int = TEST,
        level: int = 0,
        stages: Sequence[str] = (),
        layers: Any = (),
        dialect: str | None = None,
    ) -> None:
        files = [a for a in args if isinstance(a, (str, Path))]
        numbers = [a for a in args if isinstance(a, int)]
        need(
            len(files) <= 1 and len(numbers) <= 1 and len(files) + len(numbers) == len(args),
            f"Net takes a network's file, its weights' file and TRAIN or TEST, got {args}",
            InputError,
        )
        phase = numbers[0] if numbers else phase
        need(phase in (TRAIN, TEST), f"phase is TRAIN (0) or TEST (1), got {phase}", InputError)
        found = api.read(
            network_file,
            files[0] if files else weights,
            layers=layers,
            dialect=dialect,
            phase="TRAIN" if phase == TRAIN else None,  # another format has none of these options
            level=level or None,
            stages=stages or None,
        )
        need(
            found.network.format == "caffe",
            f"{network_file} is not a Caffe network; read it with anylayer.read",
            InputError,
        )
        super().__init__(found.network, found.user_layers, found.kernels)
        self.params: dict[str, list[Blob]] = _ByName("layer with weights", self._weights())
        inputs = {name: np.zeros(t.shape, t.dtype) for name, t in self.network.inputs.items() if t is not None}
        self.blobs: dict[str, Blob] = _ByName("blob", {name: Blob(array) for name, array in inputs.items()})
        self._compiled: tuple[str, Model] | None = None

    def _weights(self) -> dict[str, list[Blob]]:
        """Return the weights of each layer by its name. The network's nodes have the same arrays.

        Weights that no file holds have the values of their fillers.
        """
        found = {}
        types = self.network.inputs
        for traced in trace_nodes(self.network, self.network.nodes, self.definitions, types, lenient=True):
            node = traced.node
            given = node.blobs or _wanted(traced.bound)
            if given:
                node.blobs = [np.array(b, b.dtype, order="C") for b in given]
                found[node.name] = [Blob(b) for b in node.blobs]
        return found

    def refresh(self) -> None:
        """Set `params` from weights that were set on the network's nodes."""
        for node in self.network.nodes:
            if node.blobs:
                self.params[node.name] = [Blob(np.array(b, b.dtype, order="C")) for b in node.blobs]

    @property
    def _layer_names(self) -> list[str]:
        """The names of the layers, including those that give inputs."""
        return [*self.network.inputs, *(node.name for node in self.network.nodes)]

    def _update_nodes(self) -> str:
        """Set the weights of the network's nodes from `params`, and return a digest of their values."""
        digest = hashlib.blake2b()
        nodes: dict[str, Node] = {}
        for node in self.network.nodes:
            nodes.setdefault(node.name, node)
        for name, blobs in self.params.items():
            node = nodes[name]
            node.blobs = [blob.data for blob in blobs]
            for blob in node.blobs:
                digest.update(np.ascontiguousarray(blob).tobytes())
        return digest.hexdigest()

    def compile(self, *args: Any, **options: Any) -> Model:
        """Compile with the current weights: see anylayer.Net.compile."""
        self._update_nodes()
        return super().compile(*args, **options)

    def write(self, *args: Any, **options: Any) -> Any:
        """Write the network with the current weights: see anylayer.Net.write."""
        self._update_nodes()
        return super().write(*args, **options)

    def forward(self, **inputs: Any) -> dict[str, Array]:
        """Compute the outputs, and return them by name. An input that is not given is taken from `blobs`."""
        digest = self._update_nodes()
        if self._compiled is None or self._compiled[0] != digest:
            self._compiled = digest, super().compile()
        fed = {name: self.blobs[name].data for name in self.network.inputs if name not in inputs}
        results = self._compiled[1]({**fed, **inputs})
        self.blobs.update({name: Blob(array) for name, array in results.items()})
        return results

    def save(self, path: str | Path) -> Path:
        """Write the layers with their weights as a .caffemodel, and return its path."""
        self._update_nodes()
        net = net_from_nodes(self.network, CaffeNet(self.network.name, dialect=dialect_of(self.network.dialect)))
        with Path(path).open("wb") as handle:
            write_caffemodel(net, handle)
        return Path(path)


def _wanted(bound: Bound | None) -> list[Array]:
    """Return the weights that a layer asks for, with the values of their fillers; zeros for random fillers."""
    if bound is None or not bound.definition.typed:
        return []
    wanted = bound.instance.wanted
    values = [(wanted[i].shape, wanted[i].values()) for i in sorted(wanted)]
    return [np.zeros(shape, np.float32) if given is None else np.array(given) for shape, given in values]
