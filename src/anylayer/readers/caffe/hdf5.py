"""Weights in HDF5 (.caffemodel.h5): /data/<layer>/<index> (Caffe's net.cpp ToHDF5)."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from anylayer.errors import FileError, at, need
from anylayer.libraries import hdf5
from anylayer.network import Array
from anylayer.readers.caffe.wire import float32


@dataclass(slots=True)
class Hdf5Blob:
    """A dataset: its values as float32."""

    values: Array

    def array(self) -> Array:
        """The values."""
        return self.values


@dataclass(slots=True)
class Hdf5Layer:
    """A layer's datasets by index; None where the file leaves a shared one to its owner."""

    name: str
    blobs: list[Hdf5Blob | None] = field(default_factory=list)


def read_hdf5(path: Path) -> list[Hdf5Layer]:
    """The layers of a .caffemodel.h5. Raises FileError, also where pyfive is not installed."""
    with hdf5.opened(path) as file:
        return _layers(file)


def _layers(file: hdf5.Group) -> list[Hdf5Layer]:
    data = file.member("data")
    if not isinstance(data, hdf5.Group):
        keras = " (this is a Keras model)" if "model_weights" in file or file.has("layer_names") else ""
        raise FileError(f"there is no group 'data', so these are no Caffe weights{keras}")
    layers: list[Hdf5Layer] = []
    _collect(data, "", layers, 0)
    return layers


def _collect(group: hdf5.Group, name: str, layers: list[Hdf5Layer], depth: int) -> None:
    """Enter a group's datasets as a layer's blobs. A layer's name may hold slashes: groups in groups."""
    need(depth < 32, "groups are nested deeper than 32", FileError)
    indexed: dict[int, Hdf5Blob] = {}
    for key in group:
        member = group.member(key)
        inner = f"{name}/{key}" if name else key
        if isinstance(member, hdf5.Group):
            _collect(member, inner, layers, depth + 1)
        elif isinstance(member, hdf5.Dataset):
            with at(f"layer '{name}'"):
                need(key.isdigit() and int(key) < 1000, f"dataset '{key}' is no blob's index", FileError)
                indexed[int(key)] = Hdf5Blob(_values(member, f"blob {key}"))
    if indexed:
        layers.append(Hdf5Layer(name, [indexed.get(i) for i in range(max(indexed) + 1)]))


def _values(dataset: hdf5.Dataset, what: str) -> Array:
    need(dataset.dtype.kind == "f", f"{what} holds {dataset.dtype}, float or double are Caffe's", FileError)
    return float32(dataset.values(what))
