"""Read and write the weights of a pycaffe network."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path

from anylayer.caffe.blob import Weight
from anylayer.errors import FileError, at, need, plural, some
from anylayer.libraries.h5py import write_hdf5
from anylayer.libraries.whole import write_whole
from anylayer.network import Array, Network
from anylayer.readers.caffe import read_stored
from anylayer.readers.caffe.blobs import without_leading_ones
from anylayer.writers.caffe.caffemodel import write_caffemodel
from anylayer.writers.caffe.dialects import dialect_of
from anylayer.writers.caffe.from_nodes import net_from_nodes
from anylayer.writers.caffe.layers import CaffeNet


def load(params: Mapping[str, Sequence[Weight]], types: Mapping[str, str], weights: str | Path) -> None:
    """Copy the weights of a file into those of the layers of the same names. Other layers of the file are ignored.

    All are checked before the first is copied. Warns where no name matches, as pycaffe ignores such a file. Raises
    FileError for another number of weights or of values.
    """
    path = Path(weights)
    copies: list[tuple[Weight, Array]] = []
    unmatched = []
    for stored in read_stored(path):
        if not stored.blobs:
            continue
        if stored.name not in params:
            unmatched.append(stored.name)
            continue
        blobs = params[stored.name]
        with at(str(path)), at(f"layer '{stored.name}' ({types[stored.name]})"):
            count = len(stored.blobs)
            rule = f"the weights file has {plural(count, 'blob')}, expected {len(blobs)}"
            need(count == len(blobs), rule, FileError)
            for i, (blob, target) in enumerate(zip(stored.blobs, blobs)):
                if blob is None:  # another layer, which shares it, stores it
                    continue
                array = blob.array()
                need(
                    without_leading_ones(array.shape) == without_leading_ones(target.shape),
                    f"blob {i} has shape {array.shape} in the weights file, expected {target.shape}",
                    FileError,
                )
                copies.append((target, array))
    if unmatched and not copies:
        warnings.warn(
            f"{path}: none of its {plural(len(unmatched), 'layer')} with weights ({some(unmatched)}) is in the "
            f"network, whose layers with weights are {some(list(params))}. Weights are matched by layer name",
            stacklevel=3,
        )
    for target, array in copies:
        target.data[...] = array.reshape(target.shape)


def save(network: Network, path: str | Path) -> Path:
    """Write the layers with their weights as a .caffemodel, and return its path."""
    net = net_from_nodes(network, CaffeNet(network.name, dialect=dialect_of(network.dialect)))
    path = Path(path)
    write_whole(path, lambda file: write_caffemodel(net, file))
    return path


def save_hdf5(weights: Mapping[str, Sequence[Array]], path: str | Path) -> Path:
    """Write weights as a .caffemodel.h5, and return its path. Raises FileError where h5py is not installed."""
    path = Path(path)
    datasets = {f"data/{name}/{i}": array for name, arrays in weights.items() for i, array in enumerate(arrays)}
    write_whole(path, lambda file: write_hdf5(file, datasets))
    return path
