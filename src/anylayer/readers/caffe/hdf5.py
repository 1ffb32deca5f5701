"""Weights in HDF5 (.caffemodel.h5): /data/<layer>/<index> (Caffe's net.cpp ToHDF5)."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from anylayer.errors import FileError, at, need
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
    try:
        import h5py
    except ImportError:
        raise FileError(f"reading {path} needs: pip install anylayer[hdf5]") from None
    with at(str(path)):
        try:
            with h5py.File(path, "r") as file:
                return _layers(file, h5py)
        except (OSError, RuntimeError, KeyError, ValueError) as error:
            raise FileError(f"this is no readable HDF5 file: {error}") from None


def _layers(file: Any, h5py: Any) -> list[Hdf5Layer]:
    data = _member(file, "data", h5py)
    need(
        isinstance(data, h5py.Group),
        "there is no group 'data', so these are no Caffe weights"
        + (" (this is a Keras model)" if "model_weights" in file or "layer_names" in file.attrs else ""),
        FileError,
    )
    layers: list[Hdf5Layer] = []
    _collect(data, "", layers, h5py, 0)
    return layers


def _member(group: Any, name: str, h5py: Any) -> Any:
    """A member that lies in this very file: links to other files are not followed."""
    link = group.get(name, getlink=True)
    return group[name] if isinstance(link, h5py.HardLink) else None


def _collect(group: Any, name: str, layers: list[Hdf5Layer], h5py: Any, depth: int) -> None:
    """Enter a group's datasets as a layer's blobs. A layer's name may hold slashes: groups in groups."""
    need(depth < 32, "groups are nested deeper than 32", FileError)
    indexed: dict[int, Hdf5Blob] = {}
    for key in group:
        member = _member(group, key, h5py)
        inner = f"{name}/{key}" if name else key
        if isinstance(member, h5py.Group):
            _collect(member, inner, layers, h5py, depth + 1)
        elif isinstance(member, h5py.Dataset):
            with at(f"layer '{name}'"):
                need(key.isdigit() and int(key) < 1000, f"dataset '{key}' is no blob's index", FileError)
                indexed[int(key)] = Hdf5Blob(_values(member, f"blob {key}"))
    if indexed:
        layers.append(Hdf5Layer(name, [indexed.get(i) for i in range(max(indexed) + 1)]))


def _values(dataset: Any, what: str) -> Array:
    need(dataset.dtype.kind == "f", f"{what} holds {dataset.dtype}, float or double are Caffe's", FileError)
    need(
        dataset.external is None and not dataset.is_virtual, f"{what} keeps its values in another file", FileError
    )
    stored = dataset.id.get_storage_size()
    need(
        dataset.chunks is not None or stored >= dataset.size * dataset.dtype.itemsize,
        f"{what} claims shape {dataset.shape}, {stored} bytes are stored",
        FileError,
    )
    need(
        dataset.size * dataset.dtype.itemsize <= max(stored, 1) * 1100,
        f"{what} claims shape {dataset.shape}, {stored} bytes are stored",
        FileError,
    )
    return float32(dataset[()])
