"""Assign the weights of a file to the layers of a network (Caffe's net.cpp, CopyTrainedLayersFrom, AppendParam).

A text file may have weights, too: a prototxt whose layers have `blobs`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np

from anylayer.errors import FileError, NetworkError, at, need, plural, some
from anylayer.network import Array, Shape, Word, reshaped
from anylayer.protobuf.tree import Block, StoredBlob, Value, shortened_text
from anylayer.readers._arrays import to_float32
from anylayer.readers.caffe.wiring import Draft

_Arrays = dict[Draft, list["Array | None"]]
_OLD_DIMS = ("num", "channels", "height", "width")
"""The fields of a blob's shape in old files."""


@dataclass(slots=True)
class StoredLayer:
    """A layer of a weights file. A blob is None if another layer, which shares it, stores it."""

    name: str
    blobs: list[StoredBlob | None] = field(default_factory=list)


@dataclass(slots=True)
class TextBlob:
    """A blob of a text file: see StoredBlob."""

    block: Block

    def array(self) -> Array:
        """Return the values as float32. Raise FileError if shape and values do not agree."""
        block = self.block
        values = to_float32(block.numbers("double_data" if "double_data" in block else "data"))
        shape = block.block("shape")
        dims: Shape = ()
        if any(name in block for name in _OLD_DIMS):
            dims = tuple(block.integer(name) for name in _OLD_DIMS)
        elif shape is not None:
            dims = tuple(shape.integers("dim"))
        if any(d < 0 for d in dims) or int(np.prod(dims, dtype=object)) != values.size:
            raise block.fail(f"a blob with shape {dims} has {plural(values.size, 'value')}")
        with at(block.place()):
            return reshaped(values, dims)


def text_layer(layer: Block) -> StoredLayer:
    """Return a layer of a text file."""
    return StoredLayer(layer.text("name"), [TextBlob(b) for b in layer.blocks("blobs")])


def assign_blobs(
    layers: list[Draft], stored: Iterable[StoredLayer], file: str, needs_match: bool = True
) -> dict[Draft, list[Array]]:
    """Return the blobs of each layer. Those of the weights file replace those that the network's file contains.

    A stored layer is assigned to the first layer with its name, and ignored if the network has no such layer. If
    several layers share a parameter, the last values in the weights file are used for all of them, or else those
    of the first layer in the network's file that contains values. Raise FileError if no stored layer is in the
    network and `needs_match`, and NetworkError for blobs that do not match.
    """
    arrays_of: _Arrays = {}
    for layer in layers:
        if "blobs" in layer.block:
            with at(layer.place):
                arrays_of[layer] = [_inline_blob(value, i) for i, value in enumerate(layer.block.all("blobs"))]
    written, unmatched = _read_stored(layers, stored, file, arrays_of)
    if unmatched and not written and needs_match:
        names = [f"'{layer.name}'" for layer in layers if not layer.is_input]
        raise FileError(
            f"none of its {plural(len(unmatched), 'layer')} with weights ({some(unmatched)}) is in the network, "
            f"whose layers are {some(names)}. Weights are matched by layer name",
            file,
        )
    stored_layers = set(written)
    inline = [layer for layer in layers if layer in arrays_of and layer not in stored_layers]
    _share(layers, [*reversed(inline), *written], arrays_of)
    return {layer: _complete(arrays, layer) for layer, arrays in arrays_of.items()}


def _inline_blob(value: Value, index: int) -> Array:
    """Return the values of a blob in the network's file, which is a Block or, in a binary file, a StoredBlob."""
    with at(f"blob {index}"):
        if isinstance(value, Block):
            return TextBlob(value).array()
        if isinstance(value, (int, float, str)):
            raise FileError(f"'blobs' must be a message {{ ... }}, got {shortened_text(value)}")
        return value.array()


def _read_stored(
    layers: list[Draft], stored: Iterable[StoredLayer], file: str, arrays_of: _Arrays
) -> tuple[list[Draft], list[str]]:
    """Read the stored blobs of the network's layers into `arrays_of`.

    Return these layers in the weights file's order, and the names of the others.
    """
    by_name: dict[str, Draft] = {}
    for layer in layers:
        by_name.setdefault(layer.name, layer)
    written: list[Draft] = []
    unmatched = []
    for source in stored:
        target = by_name.get(source.name)
        if not source.blobs:
            continue
        if target is None:
            unmatched.append(f"'{source.name}'")
            continue
        arrays = arrays_of[target] = []
        for i, blob in enumerate(source.blobs):
            with at(file), at(f"layer '{source.name}'"), at(f"blob {i}"):
                arrays.append(None if blob is None else blob.array())
        written.append(target)
    return written, unmatched


@dataclass(slots=True)
class _SharedParameter:
    """A parameter that several layers share: the first of these layers, and the file's last values."""

    owner: Draft
    array: Array | None = None


def shared_parameters(layer: Draft) -> list[tuple[int, str, bool]]:
    """Return the named parameters of a layer: the index of the blob, the name, and whether it is permissive.

    A permissive parameter needs the same number of values in all layers, any other one the same shape.
    """
    specs = []
    for i, spec in enumerate(layer.block.blocks("param")):
        mode = spec.entry("share_mode")
        if mode is not None and mode.value not in (0, 1, "STRICT", "PERMISSIVE"):
            raise spec.fail(
                f"'share_mode' must be STRICT or PERMISSIVE, got {shortened_text(mode.value)}", mode.line
            )
        name = spec.text("name")
        if name:
            specs.append((i, name, mode is not None and mode.value in (1, Word("PERMISSIVE"))))
    return specs


def _share(layers: list[Draft], written: list[Draft], arrays_of: _Arrays) -> None:
    """Give all layers that share a parameter the same values: the last ones among those in `written`."""
    storage: dict[str, _SharedParameter] = {}
    parameters = {layer: shared_parameters(layer) for layer in layers}
    for layer in layers:
        for _, name, _ in parameters[layer]:
            storage.setdefault(name, _SharedParameter(layer))
    for layer in written:
        arrays = arrays_of[layer]
        for i, name, _ in parameters[layer]:
            if i < len(arrays) and arrays[i] is not None:
                storage[name].array = arrays[i]
    for layer in layers:
        for i, name, permissive in parameters[layer]:
            shared = storage[name]
            if shared.array is not None:
                arrays = arrays_of.setdefault(layer, [])
                arrays.extend([None] * (i + 1 - len(arrays)))
                with at(layer.place):
                    arrays[i] = _reshape(shared.array, arrays[i], name, shared.owner, permissive)


def _reshape(values: Array, target: Array | None, name: str, owner: Draft, permissive: bool) -> Array:
    """Return the values of a shared parameter in the shape of a layer's own values.

    Raise NetworkError if the shapes do not match.
    """
    if target is None:
        return values
    if permissive:
        matches = values.size == target.size
    else:
        matches = without_leading_ones(values.shape) == without_leading_ones(target.shape)
    need(
        matches,
        f"param '{name}' is shared with layer '{owner.name}'. Its values have shape {values.shape}, but this "
        "layer's "
        f"blob has {target.shape}"
        + ("" if permissive else ". With share_mode PERMISSIVE only the counts must match"),
        NetworkError,
    )
    return values.reshape(target.shape)


def without_leading_ones(shape: Shape) -> Shape:
    """Return a shape without leading ones, as Caffe compares shapes of old files."""
    first = next((i for i, d in enumerate(shape) if d != 1), len(shape))
    return shape[first:]


def _complete(arrays: list[Array | None], layer: Draft) -> list[Array]:
    """Return a layer's blobs. Raise NetworkError if one of them is missing."""
    present = [a for a in arrays if a is not None]
    if len(present) < len(arrays):
        missing = next(i for i, a in enumerate(arrays) if a is None)
        last = max((i for i, a in enumerate(arrays) if a is not None), default=0)
        raise NetworkError(f"the weights have blob {last} of this layer, but not blob {missing}", layer.place)
    return present
