"""Net: a Caffe network with pycaffe's interface (BVLC/caffe python/caffe/pycaffe.py, _caffe.cpp)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NoReturn

import numpy as np

from anylayer import api
from anylayer.caffe.alias import installed_dialect
from anylayer.caffe.assembly import Assembly, LayerView, Stage, need_versions, outputs_of, store_needed
from anylayer.caffe.blob import LayerBlob, Weight
from anylayer.caffe.python_layer import Layer
from anylayer.caffe.reading import TEST, TRAIN, Given, read_given
from anylayer.caffe.stages import Choice, EngineStage
from anylayer.caffe.weights import load, save, save_hdf5
from anylayer.errors import AnyLayerError, InputError, nearest, need, need_one_of, warn
from anylayer.network import Array, Node
from anylayer.runtime.model import Model
from anylayer.source import layer_notes, lost_effects

NO_GRADIENTS = (
    "anylayer computes no gradients. To train or to differentiate, write the network as a PyTorch module: "
    "anylayer generate deploy.prototxt deploy.caffemodel --for pytorch -o project"
)


class TrainingError(AnyLayerError, NotImplementedError):
    """A script asks for gradients or for a solver."""


class MissingName(InputError, KeyError):
    """A network has no layer or blob of this name."""


class _ByName(dict[str, Any]):
    """A dict that raises MissingName with its keys for a missing key. `what` says what the keys are."""

    def __init__(self, what: str, values: Mapping[str, Any]) -> None:
        super().__init__(values)
        self._what = what

    def __missing__(self, name: str) -> Any:
        raise MissingName(
            f"there is no {self._what} '{name}'{nearest(str(name), self)}; there are: {', '.join(self)}"
        )


class LayerVec(Sequence[Any]):
    """The layers of a network. A layer in Python that a script takes out runs in Python from then on."""

    def __init__(self, net: Net) -> None:
        self._net = net

    def __len__(self) -> int:
        return len(self._net.assembly.parts)

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return [self[i] for i in range(*index.indices(len(self)))]
        return self._net.layer_at(index)


class Net(api.Net):
    """A Caffe network with pycaffe's interface: `caffe.Net("deploy.prototxt", "deploy.caffemodel", caffe.TEST)`.

    It is an anylayer.Net, too: compile, write and inspect use the current weights. `engine` and `threads` are
    those of anylayer.Net.compile.

    `blobs["data"].data[...] = array` sets an input for `forward()`, and `params["conv1"][0].data[...] = array` a
    weight. Weights that no file holds have the values of their fillers.
    """

    def __init__(
        self,
        network_file: str | Path,
        *args: Any,
        weights: str | Path | None = None,
        phase: int = TEST,
        level: int = 0,
        stages: Sequence[str] | None = None,
        layers: Any = (),
        dialect: str | None = None,
        engine: str = "auto",
        threads: int | None = None,
    ) -> None:
        request = read_given(
            Given(network_file, args, weights, phase, level, stages, layers, dialect or installed_dialect())
        )
        super().__init__(request.network, request.users, request.kernels)
        request.complete(self.definitions)
        self.assembly = Assembly(request.network, dict(self.definitions), Choice(engine, threads), request.phase)
        self.assembly.add_layers(request.layers, request.classes)
        parts = self.assembly.parts
        self.blobs: dict[str, LayerBlob] = _ByName("blob", self.assembly.blobs)
        self.params: dict[str, list[Weight]] = _ByName("layer with weights", {})
        self._input_names = [top for part in parts if part.layer.role == "input" for top in part.layer.tops]
        self._output_names = outputs_of(parts)
        self._returned = [(name, self.blobs[name]) for name in self._output_names]
        self._exposed = self.assembly.exposed.weights
        self._needs_feeding = bool(self.assembly.fed or self.assembly.unshaped)
        self._is_complete = not self._needs_feeding
        self._ranges: dict[tuple[int, int], list[Stage]] = {}
        self._last: list[Stage] | None = None
        self._nodes_of: dict[int, list[tuple[Node, int]]] = {}
        self._list_weights()
        self._build()

    # ---- what the network consists of

    @property
    def inputs(self) -> list[str]:  # type: ignore[override]  # pycaffe has names here, Net has values
        """The names of the input blobs."""
        return list(self._input_names)

    @property
    def outputs(self) -> list[str]:  # type: ignore[override]  # pycaffe has names here, Net has values
        """The names of the blobs that no layer reads, in alphabetical order."""
        return list(self._output_names)

    @property
    def _layer_names(self) -> list[str]:
        """The names of the layers, including those that give inputs."""
        return [part.name for part in self.assembly.parts]

    @property
    def _blob_names(self) -> list[str]:
        return list(self.blobs)

    @property
    def _blobs(self) -> list[LayerBlob]:
        return list(self.blobs.values())

    @property
    def _inputs(self) -> list[int]:
        return [list(self.blobs).index(name) for name in self._input_names]

    @property
    def _outputs(self) -> list[int]:
        return [list(self.blobs).index(name) for name in self._output_names]

    @property
    def blob_loss_weights(self) -> dict[str, float]:
        """The weight of each blob in the loss: that of the file, 1 for the first top of a loss layer, and 0."""
        weights = dict.fromkeys(self.blobs, 0.0)
        for part in self.assembly.parts:
            first = [1.0] if part.layer.node.type.endswith("Loss") else []
            weights.update(zip(part.layer.tops, part.layer.node.settings.get("loss_weight") or first))
        return weights

    @property
    def layers(self) -> LayerVec:
        """The layers, each with `type` and `blobs`; for type "Python", the instance of its class."""
        return LayerVec(self)

    @property
    def layer_dict(self) -> dict[str, Any]:
        """The layers by name."""
        return dict(zip(self._layer_names, self.layers))

    @property
    def bottom_names(self) -> dict[str, list[str]]:
        """The names of the blobs that each layer reads."""
        return {part.name: list(part.layer.bottoms) for part in self.assembly.parts}

    @property
    def top_names(self) -> dict[str, list[str]]:
        """The names of the blobs that each layer writes."""
        return {part.name: list(part.layer.tops) for part in self.assembly.parts}

    def layer_at(self, index: int) -> LayerView | Layer:
        """Return layer number `index`. See LayerVec."""
        part = self.assembly.parts[index]
        if part.traced is not None:
            part.traced = None
            self._build()
        return part.view

    # ---- stages and weights

    def _build(self) -> None:
        """Make the stages of the whole network."""
        self._ranges.clear()
        self._last = None
        self._stages = self._made(0, len(self.assembly.parts) - 1, self._output_names)

    def _made(self, first: int, last: int, outputs: Sequence[str]) -> list[Stage]:
        """Return the stages of the layers `first` to `last`, which store `outputs`."""
        if (first, last) not in self._ranges:
            stages = self.assembly.stages(first, last)
            store_needed(stages, outputs)
            need_versions(
                stages, {v: p.layer.node.place for p in self.assembly.parts for v in p.layer.node.inputs}
            )
            self._ranges[first, last] = stages
        return self._ranges[first, last]

    def _list_weights(self) -> None:
        """Set `params`, and warn about layers whose weights no file holds and about ambiguous params."""
        self.params.clear()
        self.params.update((part.name, part.view.blobs) for part in self.assembly.parts if part.view.blobs)
        self._index_weights()
        if self.assembly.unfilled and self.network.weights:
            listed = ", ".join(f"'{name}'" for name in self.assembly.unfilled)
            warn(
                f"{self.network.weights} has no weights of layers {listed}; they have the values of their fillers",
                stacklevel=3,
            )
        for note in (*layer_notes(self.assembly.traced), *lost_effects(self.assembly.traced)):
            warn(note, stacklevel=3)
        self.assembly.unfilled.clear()
        self.assembly.traced.clear()

    def _complete(self) -> None:
        """Give weights to the layers for which the file states no shape: those after a data layer."""
        if self._is_complete:
            return
        missing = [
            name for name in (*self.assembly.fed, *self.assembly.unshaped) if self.blobs[name].shape == (0,)
        ]
        self.assembly.reshape(lenient=True)
        self._list_weights()
        waiting = [part.name for part in self.assembly.parts if part.waiting and part.node is not None]
        self._is_complete = not (missing and waiting)
        if not self._is_complete:
            raise InputError(
                f"the weights of layers {', '.join(waiting)} have no shapes, because blob '{missing[0]}' has "
                f"none. Give it: net.blobs['{missing[0]}'].reshape(...)"
            )

    def _index_weights(self) -> None:
        """Store the nodes that have each weight, and register for reads of the weights."""
        self._nodes_of.clear()
        for part in self.assembly.parts:
            for i, weight in enumerate(part.view.blobs):
                weight.listeners.add(self.assembly.exposed)
                self._nodes_of.setdefault(id(weight), []).append((part.layer.node, i))

    def _update_weights(self, running: Sequence[Stage] = ()) -> None:
        """Give the nodes the values that were written to `params`. The stages whose weights changed are compiled
        again in their next run. Before, they compute the blobs of the last run that are still pending, except for
        the stages `running`."""
        exposed = self._exposed
        changed: dict[int, Node] = {}
        renewed: list[tuple[Node, int, Array]] = []
        for key, weight in list(exposed.items()):
            array = weight.frozen()
            if not weight.is_held:
                del exposed[key]
            for node, i in self._nodes_of.get(key, ()):
                if i >= len(node.blobs) or node.blobs[i] is not array:
                    changed[id(node)] = node
                    renewed.append((node, i, array))
        if not changed:
            return
        for stage in {id(s): s for stages in self._ranges.values() for s in stages}.values():
            if isinstance(stage, EngineStage) and any(id(node) in changed for node in stage.nodes):
                if stage not in running:
                    stage.materialize()
                stage.forget()
        for node, i, array in renewed:
            node.blobs[i:] = [array, *node.blobs[i + 1 :]]

    def refresh(self) -> None:
        """Set `params` from weights that were set on the network's nodes."""
        for part in self.assembly.parts:
            for weight, array in zip(part.view.blobs, part.layer.node.blobs):
                if weight.frozen() is not array:
                    weight.data[...] = array.reshape(weight.shape)
        self._update_weights()

    def compile(self, *args: Any, **options: Any) -> Model:
        """Compile with the current weights: see anylayer.Net.compile."""
        self._update_weights()
        return super().compile(*args, **options)

    def write(self, *args: Any, **options: Any) -> Any:
        """Write the network with the current weights: see anylayer.Net.write."""
        self._update_weights()
        return super().write(*args, **options)

    # ---- running

    def forward(
        self, blobs: Sequence[str] | None = None, start: str | None = None, end: str | None = None, **inputs: Any
    ) -> dict[str, Array]:
        """Compute the network, or its layers from `start` to `end`. Return the outputs by name.

        blobs: names of further blobs to return. inputs: arrays by the names of the input blobs; an input that is
        not given has the values of `blobs`. With `end`, the result has the tops of that layer in place of the
        outputs. The arrays are those of `blobs`: the next run writes into them, as in Caffe.
        """
        stages, returned = self._stages, self._returned
        if start is not None or end is not None:
            stages, returned = self._range(start, end)
        for stage in stages if blobs else ():
            if isinstance(stage, EngineStage):
                stage.ask(blobs or ())
        if inputs:
            self._feed(inputs)
        if self._needs_feeding and start is None:
            self.assembly.need_fed()
            self._complete()
        if self._exposed:
            self._update_weights(stages)
        claim = stages is not self._last
        for stage in stages:
            stage.run(claim)
        self._last = stages
        arrays = {name: blob.current() for name, blob in returned}
        if blobs:
            arrays.update({name: self.blobs[name].data for name in blobs})
        return arrays

    def _range(self, start: str | None, end: str | None) -> tuple[list[Stage], list[tuple[str, LayerBlob]]]:
        """Return the stages of the layers from `start` to `end`, and the blobs that they return."""
        names = self._layer_names
        for name in (start, end):
            if name is not None:
                need_one_of(name, names, f"there is no layer '{name}'", "there are")
        first = 0 if start is None else names.index(start)
        last = len(names) - 1 if end is None else names.index(end)
        outputs = self._output_names if end is None else self.assembly.parts[last].layer.tops
        return self._made(first, last, outputs), [(name, self.blobs[name]) for name in outputs]

    def _feed(self, inputs: Mapping[str, Any]) -> None:
        """Write the inputs of a call into their blobs."""
        for name, array in inputs.items():
            need_one_of(name, self._input_names, f"the network has no input '{name}'", "its inputs")
            blob, array = self.blobs[name], np.asarray(array)
            need(
                array.shape == blob.shape,
                f"input '{name}' must have shape {blob.shape}, got {array.shape}; to change it: "
                f"net.blobs['{name}'].reshape({', '.join(map(str, array.shape))})",
                InputError,
            )
            blob.data[...] = array

    def forward_all(self, blobs: Sequence[str] | None = None, **inputs: Any) -> dict[str, Array]:
        """Compute any number of samples, in batches of the network's size. Return the outputs of all of them.

        blobs and inputs are those of `forward`, where inputs have one entry per sample on axis 0.
        """
        need(inputs, f"forward_all needs arrays for the inputs: {', '.join(self._input_names)}", InputError)
        count = len(next(iter(inputs.values())))
        arrays_by_name: dict[str, list[Array]] = {}
        for batch in self._batch(inputs):
            self._feed(batch)
            for name, array in self.forward(blobs).items():
                arrays_by_name.setdefault(name, []).append(array.copy())
        return {name: np.concatenate(arrays)[:count] for name, arrays in arrays_by_name.items()}

    def _batch(self, inputs: Mapping[str, Any]) -> Iterator[dict[str, Array]]:
        """Yield the batches of samples. The last one is padded with zeros."""
        size = self.blobs[next(iter(inputs))].shape[0]
        count = len(next(iter(inputs.values())))
        for start in range(0, count, size):
            batch = {name: np.asarray(array[start : start + size]) for name, array in inputs.items()}
            missing = size - min(size, count - start)
            yield {
                name: np.concatenate([a, np.zeros((missing, *a.shape[1:]), a.dtype)]) if missing else a
                for name, a in batch.items()
            }

    def reshape(self) -> None:
        """Give all blobs the shapes that follow from those of the inputs. `forward` does it, too."""
        self._update_weights()
        self._last = None
        self._complete()
        self.assembly.reshape()

    def backward(self, *args: Any, **kwargs: Any) -> NoReturn:
        """Raise TrainingError: anylayer computes no gradients."""
        raise TrainingError(NO_GRADIENTS)

    forward_backward_all = clear_param_diffs = backward

    # ---- weights in files

    def copy_from(self, weights: str | Path) -> None:
        """Set the weights of the layers that a .caffemodel or .caffemodel.h5 has, by name."""
        self._complete()
        load(self.params, self.layer_types(), weights)

    load_hdf5 = copy_from

    def layer_types(self) -> dict[str, str]:
        """Return the type of each layer by its name."""
        return {part.name: part.layer.node.type for part in self.assembly.parts}

    def share_with(self, other: Net) -> None:
        """Use another network's weights for layers of the same names; a write changes both networks."""
        self._complete()
        for name, blobs in self.params.items():
            theirs = other.params.get(name)
            if theirs is None:
                continue
            for i, (target, source) in enumerate(zip(blobs, theirs, strict=True)):
                need(
                    target.shape == source.shape,
                    f"layer '{name}': blob {i} has shape {target.shape} here, {source.shape} in the other network",
                    InputError,
                )
            blobs[:] = theirs
        self._index_weights()
        self._exposed.update({id(w): w for blobs in self.params.values() for w in blobs})

    def save(self, path: str | Path) -> Path:
        """Write the layers with their weights as a .caffemodel, and return its path."""
        self._complete()
        self._update_weights()
        return save(self.network, path)

    def save_hdf5(self, path: str | Path, write_diff: bool = False) -> Path:
        """Write the weights as a .caffemodel.h5, and return its path. It needs the package h5py."""
        need(not write_diff, NO_GRADIENTS, TrainingError)
        self._complete()
        return save_hdf5({name: [w.frozen() for w in blobs] for name, blobs in self.params.items()}, path)


__all__ = ["NO_GRADIENTS", "TEST", "TRAIN", "LayerVec", "MissingName", "Net", "TrainingError"]
