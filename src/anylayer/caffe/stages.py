"""Run a part of a pycaffe network: consecutive layers on an engine, or one layer in Python."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace

import numpy as np

from anylayer.caffe.blob import LayerBlob
from anylayer.caffe.fillers import Filler, draw, is_random
from anylayer.caffe.python_layer import Layer
from anylayer.compile.inputs import needed_nodes
from anylayer.compile.nodes import Definitions, unknown_layers
from anylayer.errors import EngineError
from anylayer.layer import Registry
from anylayer.network import Array, Network, Node, Shape, TensorType
from anylayer.runtime.model import Model

_RUNS = itertools.count(1)
"""The counter that numbers the runs of all stages, so that each run has a number of its own."""
_MODELS_KEPT = 4
"""The number of sets of outputs for which a stage keeps a compiled model."""


class Choice:
    """The engine of a network's models. `asked` is the user's; `engine` is the one that "auto" has chosen."""

    def __init__(self, asked: str, threads: int | None) -> None:
        self.asked, self.engine, self.threads = asked, asked, threads

    def compile(self, network: Network, definitions: Definitions, outputs: Mapping[str, str]) -> Model:
        """Compile a network for these outputs, on the engine that its first model has chosen, if that can."""
        try:
            model = Model(network, definitions, outputs, engine=self.engine, threads=self.threads)
        except EngineError:
            if self.engine == self.asked:
                raise
            model = Model(network, definitions, outputs, engine=self.asked, threads=self.threads)
        if self.asked == "auto":
            self.engine = model.engine
        return model


class EngineStage:
    """Consecutive layers that an engine computes.

    `always` are the blobs that every run stores: outputs, and inputs of later stages. Another blob is computed
    when a script reads it. A run also stores the blobs that the script has read since the run before, or still
    holds.
    """

    def __init__(
        self, network: Network, nodes: Sequence[Node], blob_of: Mapping[str, LayerBlob], definitions: Definitions,
        choice: Choice,
    ) -> None:  # fmt: skip
        self.nodes = list(nodes)
        self.generation = 0
        self.always: frozenset[str] = frozenset()
        self._definitions, self._choice = definitions, choice
        produced = {value for node in nodes for value in node.outputs}
        read = dict.fromkeys(v for node in nodes for v in node.inputs if v and v not in produced)
        self.inputs = [(value, blob_of[value]) for value in read]
        self.values = {blob_of[value].name: value for node in nodes for value in node.outputs}
        self.blobs = {name: blob_of[value] for name, value in self.values.items()}
        self._network = replace(network, nodes=self.nodes, outputs=self.values, blobs=self.values)
        self._models: dict[frozenset[str], Model] = {}
        self._arrays: dict[frozenset[str], list[Array]] = {}
        self._given: dict[str, Array] = {}
        self._handed: dict[str, LayerBlob] = {}

    def run(self, claim: bool) -> None:
        """Compute the stage from its inputs. claim: whether another stage may have computed its blobs since."""
        for value, blob in self.inputs:
            array, buffer = blob.current(), self._given.get(value)
            if buffer is None or buffer.shape != array.shape:
                self._given[value] = buffer = np.empty(array.shape, array.dtype)
                self._arrays.clear()
            buffer[...] = array
        if claim:
            self.ask(name for name, blob in self.blobs.items() if blob.is_held)
        names = self.always
        if self._handed:
            names = names.union(self._handed)
            self._handed = {name: blob for name, blob in self._handed.items() if blob.is_held}
        self.generation = generation = next(_RUNS)
        if claim:
            for blob in self.blobs.values():
                blob.producer = self
        if names:
            for name, array in self._results(names).items():
                self.blobs[name].store(array, generation)

    def _results(self, names: frozenset[str]) -> dict[str, Array]:
        """Compute the blobs in `names` from the inputs of the last run."""
        model = self._models.get(names) or self._compile(names)
        arrays = self._arrays.get(names)
        if arrays is None:
            arrays = self._arrays[names] = [self._given[name] for name in model.inputs]
        return model.run(arrays)

    def _compile(self, names: frozenset[str]) -> Model:
        """Compile the stage for the blobs in `names`, in the order of the layers."""
        self._network.inputs = {value: TensorType.of(array.shape) for value, array in self._given.items()}
        outputs = {name: value for name, value in self.values.items() if name in names}
        needed = needed_nodes(self._network, outputs)
        unknown_layers(self._network, needed, self._definitions, Registry.of("caffe").types())
        model = self._choice.compile(self._network, self._definitions, outputs)
        while len(self._models) >= _MODELS_KEPT:
            oldest = next(iter(self._models))
            del self._models[oldest]
            self._arrays.pop(oldest, None)
        self._models[names] = model
        return model

    def ask(self, names: Iterable[str]) -> None:
        """Store these blobs in the next run, as far as they are the stage's."""
        for name in names:
            if name in self.blobs and name not in self.always:
                self._handed[name] = self.blobs[name]

    def materialize(self) -> None:
        """Compute the blobs of the last run that a script may still read, before weights change."""
        for blob in self.blobs.values():
            if blob.producer is self and blob.pending:
                self.fill(blob)

    def forget(self) -> None:
        """Drop the compiled models, because weights have changed."""
        self._models.clear()
        self._arrays.clear()

    def fill(self, blob: LayerBlob) -> None:
        """Compute every blob of the last run that is not computed yet."""
        pending = [b for b in self.blobs.values() if b.producer is self and b.pending]
        results = self._results(frozenset(self.values))
        for one in pending:
            one.store(results[one.name], self.generation)

    def handed_out(self, blob: LayerBlob) -> None:
        """Note that a script has read the values of the last run."""
        if blob.name not in self.always:
            self._handed[blob.name] = blob


class PythonStage:
    """A layer in Python, which runs as in pycaffe: it reads and writes the network's blobs."""

    def __init__(self, layer: Layer, node: Node, blob_of: Mapping[str, LayerBlob]) -> None:
        self.layer, self.place = layer, node.place
        self.inputs = [(value, blob_of[value]) for value in node.inputs]
        self.values = {blob_of[value].name: value for value in node.outputs}
        self._bottoms = [blob_of[value] for value in node.inputs]
        self._tops = [blob_of[value] for value in node.outputs]

    def run(self, claim: bool) -> None:
        """Call the layer's reshape and forward."""
        for blob in [*self._bottoms, *self._tops]:
            blob.current()
        if claim:
            for blob in self._tops:
                blob.producer = None
        self.reshape()
        with noted(self.place):
            self.layer.forward(self._bottoms, self._tops)

    def reshape(self) -> None:
        """Let the layer give its tops their shapes."""
        with noted(self.place):
            self.layer.reshape(self._bottoms, self._tops)

    def set_up(self) -> None:
        """Call the layer's setup and reshape, when the network is made."""
        with noted(self.place):
            self.layer.setup(self._bottoms, self._tops)
        self.reshape()


@contextmanager
def noted(place: str) -> Iterator[None]:
    """Add the place of a layer to an exception of its class, which is raised as it is."""
    try:
        yield
    except Exception as error:
        error.add_note(place)
        raise


class FilledStage:
    """Blobs that fillers give. Random ones are drawn again in each run, as in Caffe; scripts may write others."""

    def __init__(
        self, fillers: Sequence[tuple[Filler, Shape]], node: Node, blob_of: Mapping[str, LayerBlob]
    ) -> None:
        self.inputs: list[tuple[str, LayerBlob]] = []
        self.values = {blob_of[value].name: value for value in node.outputs}
        fillings = [(blob_of[value], filler, shape) for value, (filler, shape) in zip(node.outputs, fillers)]
        self._drawn = [one for one in fillings if is_random(one[1])]
        for top, filler, shape in fillings:
            top.reshape(*shape)
            top.data[...] = draw(filler, shape)

    def run(self, claim: bool) -> None:
        """Draw the random values."""
        for top, filler, shape in self._drawn:
            if claim:
                top.producer = None
            top.reshape(*shape)
            top.data[...] = draw(filler, shape)
