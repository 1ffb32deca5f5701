"""Weights in HDF5 (.caffemodel.h5): /data/<layer>/<index> (Caffe's net.cpp ToHDF5)."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from anylayer.errors import FileError, at, need
from anylayer.libraries import h5py
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
    """The layers of a .caffemodel.h5. Raises FileError, also where h5py is not installed."""
    with h5py.opened(path) as file:
        return _layers(file)


def _layers(file: Any) -> list[Hdf5Layer]:
    data = h5py.member(file, "data")
    need(
        h5py.is_group(data),
        "there is no group 'data', so these are no Caffe weights"
        + (" (this is a Keras model)" if "model_weights" in file or "layer_names" in file.attrs else ""),
        FileError,
    )
    layers: list[Hdf5Layer] = []
    _collect(data, "", layers, 0)
    return layers


def _collect(group: Any, name: str, layers: list[Hdf5Layer], depth: int) -> None:
    """Enter a group's datasets as a layer's blobs. A layer's name may hold slashes: groups in groups."""
    need(depth < 32, "groups are nested deeper than 32", FileError)
    indexed: dict[int, Hdf5Blob] = {}
    for key in group:
        member = h5py.member(group, key)
        inner = f"{name}/{key}" if name else key
        if h5py.is_group(member):
            _collect(member, inner, layers, depth + 1)
        elif h5py.is_dataset(member):
            with at(f"layer '{name}'"):
                need(key.isdigit() and int(key) < 1000, f"dataset '{key}' is no blob's index", FileError)
                indexed[int(key)] = Hdf5Blob(_values(member, f"blob {key}"))
    if indexed:
        layers.append(Hdf5Layer(name, [indexed.get(i) for i in range(max(indexed) + 1)]))


def _values(dataset: Any, what: str) -> Array:
    need(dataset.dtype.kind == "f", f"{what} holds {dataset.dtype}, float or double are Caffe's", FileError)
    return float32(h5py.values(dataset, what))
