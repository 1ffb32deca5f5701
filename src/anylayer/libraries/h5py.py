"""Write HDF5 files with h5py. This is the only file that imports it, and it does so when a file is written."""

from __future__ import annotations

from collections.abc import Mapping
from typing import BinaryIO

from anylayer.errors import FileError
from anylayer.network import Array


def write_hdf5(file: BinaryIO, datasets: Mapping[str, Array]) -> None:
    """Write arrays as the datasets of an HDF5 file; a name with slashes is a path of groups.

    Raises FileError where h5py is not installed.
    """
    try:
        import h5py
    except ImportError:
        raise FileError("to write HDF5 files: pip install h5py") from None
    with h5py.File(file, "w") as root:
        root.require_group("data")
        for name, array in datasets.items():
            root.create_dataset(name, data=array)
