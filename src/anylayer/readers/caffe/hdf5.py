"""Weights in HDF5 (.caffemodel.h5). Blobs are datasets /data/<layer>/<index> (Caffe's net.cpp, ToHDF5)."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from anylayer.errors import FileError, at, need
from anylayer.libraries import hdf5
from anylayer.network import Array
from anylayer.readers._arrays import to_float32
from anylayer.readers._limits import MAX_BLOBS, MAX_GRAPH_NESTING
from anylayer.readers.caffe.blobs import StoredLayer


@dataclass(slots=True)
class Hdf5Blob:
    """A blob of an HDF5 file: see StoredBlob."""

    values: Array

    def array(self) -> Array:
        """Return the values as float32."""
        return self.values


def read_hdf5(path: Path) -> list[StoredLayer]:
    """Return the layers of a .caffemodel.h5. Raise FileError, also if the package pyfive is not installed."""
    with hdf5.opened(path) as file:
        return _layers(file)


def _layers(file: hdf5.Group) -> list[StoredLayer]:
    data = file.member("data")
    if not isinstance(data, hdf5.Group):
        keras = " (this is a Keras model)" if "model_weights" in file or file.has("layer_names") else ""
        raise FileError(f"the file has no group 'data', so it does not contain Caffe weights{keras}")
    layers: list[StoredLayer] = []
    _collect(data, "", layers, 0)
    return layers


def _collect(group: hdf5.Group, name: str, layers: list[StoredLayer], depth: int) -> None:
    """Add a group's datasets as the blobs of a layer. A name with slashes is a path of groups."""
    need(depth < MAX_GRAPH_NESTING, f"groups are nested deeper than {MAX_GRAPH_NESTING}", FileError)
    indexed: dict[int, Hdf5Blob] = {}
    for key in group:
        member = group.member(key)
        inner = f"{name}/{key}" if name else key
        if isinstance(member, hdf5.Group):
            _collect(member, inner, layers, depth + 1)
        elif isinstance(member, hdf5.Dataset):
            with at(f"layer '{name}'"):
                rule = f"the name of dataset '{key}' is not the index of a blob"
                need(key.isdigit() and int(key) < MAX_BLOBS, rule, FileError)
                rule = f"blob {key} has dtype {member.dtype}, expected float or double"
                need(member.dtype.kind == "f", rule, FileError)
                indexed[int(key)] = Hdf5Blob(to_float32(member.values(f"blob {key}")))
    if indexed:
        layers.append(StoredLayer(name, [indexed.get(i) for i in range(max(indexed) + 1)]))
