"""Put the weights of a file into the layers of a network (Caffe's net.cpp CopyTrainedLayersFrom, AppendParam)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from anylayer.errors import FileError, NetworkError, at, need
from anylayer.network import Array, Shape, Word
from anylayer.readers._tree import Block, shown
from anylayer.readers.caffe.weights import TextBlob
from anylayer.readers.caffe.wiring import Draft

_Arrays = dict[int, list[Array | None]]  # by the identity of a Draft


class Stored(Protocol):
    """A blob in a weights file, which becomes an array when it is asked for."""

    def array(self) -> Array:
        """The values, float32."""


class StoredLayer(Protocol):
    """A layer of a weights file. A blob is None where the file leaves it to another layer that shares it."""

    @property
    def name(self) -> str: ...

    @property
    def blobs(self) -> Sequence[Stored | None]: ...


def fill(layers: list[Draft], stored: Iterable[StoredLayer], file: str) -> dict[int, list[Array]]:
    """The blobs of each layer, by the identity of the Draft: its own, and over them those of a weights file.

    A stored layer goes to the first layer of its name; one that the network lacks is ignored. Of two blobs for
    one shared parameter the later in the file counts for both. Refused where nothing at all fits.
    """
    found: _Arrays = {}
    for layer in layers:
        if "blobs" in layer.block:
            with at(layer.place):
                found[id(layer)] = [_own(layer.block, e.value, i) for i, e in enumerate(_entries(layer.block))]
    written = _take(layers, stored, file, found)
    later = set(map(id, written))
    first = [layer for layer in layers if id(layer) in found and id(layer) not in later]
    _share(layers, [*reversed(first), *written], found)
    return {key: _complete(arrays, layers, key) for key, arrays in found.items()}


def _entries(block: Block) -> list[Any]:
    return [e for e in block if e.name == "blobs"]


def _own(block: Block, value: Any, index: int) -> Array:
    with at(f"blob {index}"):
        if isinstance(value, Block):
            return TextBlob(value).array()
        need(hasattr(value, "array"), f"'blobs' must be a message {{ ... }}, got {shown(value)}", FileError)
        return value.array()  # type: ignore[no-any-return]


def _take(layers: list[Draft], stored: Iterable[StoredLayer], file: str, found: _Arrays) -> list[Draft]:
    """Read the stored blobs of the network's layers into `found`; the layers that got some, in file order."""
    by_name: dict[str, Draft] = {}
    for layer in layers:
        by_name.setdefault(layer.name, layer)
    written: list[Draft] = []
    missed = []
    for source in stored:
        target = by_name.get(source.name)
        if not source.blobs:
            continue
        if target is None:
            missed.append(source.name)
            continue
        with at(file), at(f"layer '{source.name}'"):
            found[id(target)] = [_array(blob, i) for i, blob in enumerate(source.blobs)]
        written.append(target)
    if missed and not written:
        here = [layer.name for layer in layers if not layer.feeds]
        raise FileError(
            f"none of its {len(missed)} layers with weights ({_few(missed)}) is in the network, whose layers are "
            f"{_few(here)}. Weights are matched by layer name",
            file,
        )
    return written


def _array(blob: Stored | None, index: int) -> Array | None:
    with at(f"blob {index}"):
        return None if blob is None else blob.array()


def _few(names: list[str]) -> str:
    listed = ", ".join(f"'{n}'" for n in names[:3])
    return listed + (", ..." if len(names) > 3 else "")


@dataclass(slots=True)
class _Shared:
    """The one storage of a shared parameter: who has it first, and the values written last."""

    owner: Draft
    array: Array | None = None


def _specs(layer: Draft) -> list[tuple[int, str, bool]]:
    """The shared parameters of a layer: blob index, name, and whether only the count must agree."""
    specs = []
    for i, spec in enumerate(layer.block.blocks("param")):
        mode = spec.entry("share_mode")
        if mode is not None and mode.value not in (0, 1, "STRICT", "PERMISSIVE"):
            raise spec.fail(f"'share_mode' must be STRICT or PERMISSIVE, got {shown(mode.value)}", mode.line)
        name = spec.text("name")
        if name:
            specs.append((i, name, mode is not None and mode.value in (1, Word("PERMISSIVE"))))
    return specs


def _share(layers: list[Draft], written: list[Draft], found: _Arrays) -> None:
    """Give all layers that share a parameter its last written values."""
    storage: dict[str, _Shared] = {}
    specs = {id(layer): _specs(layer) for layer in layers}
    for layer in layers:
        for _, name, _ in specs[id(layer)]:
            storage.setdefault(name, _Shared(layer))
    for layer in written:
        arrays = found[id(layer)]
        for i, name, _ in specs[id(layer)]:
            if i < len(arrays) and arrays[i] is not None:
                storage[name].array = arrays[i]
    for layer in layers:
        for i, name, permissive in specs[id(layer)]:
            shared = storage[name]
            if shared.array is not None:
                arrays = found.setdefault(id(layer), [])
                arrays.extend([None] * (i + 1 - len(arrays)))
                with at(layer.place):
                    arrays[i] = _shaped(shared, arrays[i], name, permissive)


def _shaped(shared: _Shared, own: Array | None, name: str, permissive: bool) -> Array:
    values = shared.array if shared.array is not None else np.empty(0, np.float32)
    if own is None:
        return values
    same = values.size == own.size if permissive else _trimmed(values.shape) == _trimmed(own.shape)
    need(
        same,
        f"param '{name}' is shared with layer '{shared.owner.name}': its values have shape {values.shape}, "
        f"this layer's {own.shape}"
        + ("" if permissive else " (share_mode PERMISSIVE asks for equal counts only)"),
        NetworkError,
    )
    return values.reshape(own.shape)


def _trimmed(shape: Shape) -> Shape:
    """Without leading ones: Caffe's legacy rule."""
    first = next((i for i, d in enumerate(shape) if d != 1), len(shape))
    return shape[first:]


def _complete(arrays: list[Array | None], layers: list[Draft], key: int) -> list[Array]:
    for i, array in enumerate(arrays):
        if array is None:
            layer = next(x for x in layers if id(x) == key)
            raise NetworkError(f"blob {i} is missing in the weights, blob {_last(arrays)} is there", layer.place)
    return [a for a in arrays if a is not None]


def _last(arrays: list[Array | None]) -> int:
    return max((i for i, a in enumerate(arrays) if a is not None), default=0)
