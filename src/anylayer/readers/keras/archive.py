"""The parts of a Keras model: in a zip archive (.keras), a folder, an HDF5 file, or JSON and weights."""

from __future__ import annotations

import lzma
import stat
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np

from anylayer.errors import FileError, at, need, plural, wording
from anylayer.libraries import hdf5
from anylayer.readers._folder import need_in_folder
from anylayer.readers._json import parse, read_object
from anylayer.readers._limits import FREE_UNPACKED_BYTES, MAX_JSON_BYTES, MAX_UNPACK_RATIO
from anylayer.readers.keras.weights import NamedWeights, NoWeights, ObjectWeights, WeightGroup

CONFIG = "config.json"
METADATA = "metadata.json"
WEIGHTS = "model.weights.h5"
HDF5 = b"\x89HDF\r\n\x1a\n"
ZIP_ERRORS = (
    zipfile.BadZipFile, zlib.error, lzma.LZMAError, NotImplementedError, RuntimeError, EOFError, OSError,
    ValueError, OverflowError,
)  # fmt: skip
"""What zipfile raises for a damaged archive."""


@dataclass
class KerasModel:
    """A model's configuration and its weights, which can be read while the file is open."""

    config: dict[str, Any]
    weights: WeightGroup
    version: str = ""
    """Keras' version if the file states it."""


@contextmanager
def open_model(path: Path, weights: Path | None) -> Iterator[KerasModel]:
    """Open the model at `path`, with the weights of the file `weights` if it is given."""
    with at(str(path)):
        if path.is_dir() or _is_zip(path):
            source = _folder(path) if path.is_dir() else _archive(path)
        elif _is_hdf5(path):
            source = _hdf5_model(path)
        else:
            source = _json_model(read_object(path, "the file"))
        with source as model:
            if weights is None:
                yield model
            else:
                with weights_file(weights) as group:
                    yield KerasModel(model.config, group, model.version)


def _is_hdf5(path: Path) -> bool:
    with path.open("rb") as handle:
        return handle.read(len(HDF5)) == HDF5


@contextmanager
def _json_model(config: dict[str, Any]) -> Iterator[KerasModel]:
    version = str(config.get("keras_version", ""))
    need(
        not version.startswith("1"),
        f"the model is of Keras {version}, whose layers differ. Load and save it in Keras 2",
        FileError,
    )
    yield KerasModel(config, NoWeights(), version)


@contextmanager
def _folder(path: Path) -> Iterator[KerasModel]:
    config, weights, metadata = path / CONFIG, path / WEIGHTS, path / METADATA
    need(config.is_file(), f"the folder has no {CONFIG}", FileError)
    parsed = read_object(config, CONFIG)
    need(weights.is_file(), f"the folder has no {WEIGHTS}", FileError)
    for file in (config, weights, metadata):
        if file.is_file():
            need_in_folder(file, path, file.name)
    with weights_file(weights) as group:
        yield KerasModel(parsed, group, _version(metadata.read_bytes() if metadata.is_file() else b"{}"))


@contextmanager
def _hdf5_model(path: Path) -> Iterator[KerasModel]:
    with hdf5.opened(path) as file:
        config = file.text("model_config")
        if not config:
            stored = _weights_in(file).list_layers()
            raise FileError(
                "the file has weights, but no network. Give the network first, its JSON (model.to_json()) or a "
                "Caffe prototxt whose layers have these names: "
                + wording(f"anylayer.read('model.json', '{path.name}')", f"model.json {path.name}")
                + f". The weights of {plural(len(stored), 'layer')}: {'; '.join(map(str, stored))}"
            )
        inner = file.member("model_weights")
        if not isinstance(inner, hdf5.Group):
            raise FileError("the file has no group 'model_weights'")
        yield KerasModel(parse(config.encode(), "model_config"), _legacy(inner), file.text("keras_version"))


@contextmanager
def weights_file(path: Path) -> Iterator[WeightGroup]:
    """Open the weights of a file of Keras 3 (.weights.h5) or Keras 2, or of a whole model (.keras or HDF5)."""
    with at(str(path)):
        need(path.is_file(), "there is no such file", FileError)
        if _is_zip(path):
            with _archive(path) as model:
                yield model.weights
            return
        need(_is_hdf5(path), "this is not an HDF5 file, in which Keras stores weights", FileError)
        with hdf5.opened(path) as file:
            yield _weights_in(file)


def _weights_in(file: hdf5.Group) -> WeightGroup:
    inner = file.member("model_weights")
    if isinstance(inner, hdf5.Group) or file.texts("layer_names") is not None:
        return _legacy(inner if isinstance(inner, hdf5.Group) else file)
    return ObjectWeights(file, "")


def _legacy(group: hdf5.Group) -> WeightGroup:
    backend, version = group.text("backend"), group.text("keras_version")
    need(
        backend in ("", "tensorflow", "jax", "torch", "numpy", "openvino"),
        f"the weights were saved with the backend '{backend}', which stores convolution kernels rotated by 180 "
        "degrees. Load the model in Keras 2 with TensorFlow and save it again",
        FileError,
    )
    need(
        version and not version.startswith("1"),
        f"the weights are of Keras {version or '1'}, whose layers differ. Load and save the model in Keras 2",
        FileError,
    )
    return NamedWeights.of(group)


def _is_zip(path: Path) -> bool:
    """Return whether a file is a zip archive by its first bytes: a truncated one lacks its directory."""
    with path.open("rb") as handle:
        return handle.read(4) == b"PK\x03\x04"


@contextmanager
def _archive(path: Path) -> Iterator[KerasModel]:
    """Open a .keras file: a zip archive with config.json and model.weights.h5."""
    try:
        with zipfile.ZipFile(path) as archive:
            infos = {info.filename: info for info in archive.infolist()}
            for name, info in infos.items():
                _check_name(name, info)
            need(CONFIG in infos, f"the archive has no {CONFIG}, so it is not a Keras model", FileError)
            config = parse(_read_member(archive, infos[CONFIG], MAX_JSON_BYTES), CONFIG)
            metadata = _read_member(archive, infos[METADATA], FREE_UNPACKED_BYTES) if METADATA in infos else b"{}"
            version = _version(metadata)
            need(WEIGHTS in infos, f"the archive has no {WEIGHTS}", FileError)
            info = infos[WEIGHTS]
            if info.compress_type == zipfile.ZIP_STORED and not info.flag_bits & 1:
                start, stop = _stored_bytes(path, info)
                data = hdf5.mapped(path)[start:stop]
            else:
                data = np.frombuffer(_read_member(archive, info), np.uint8)
    except ZIP_ERRORS as error:
        raise FileError(f"this is not a readable zip archive: {error}") from None
    with hdf5.opened(path, data, info.compress_size) as file:
        yield KerasModel(config, ObjectWeights(file, ""), version)


def unpack(path: Path, folder: Path) -> None:
    """Write the parts of a .keras file to a new folder. Raise FileError for a damaged archive."""
    with at(str(path)), _archive(path), zipfile.ZipFile(path) as archive:
        folder.mkdir()
        for name in {CONFIG, WEIGHTS, METADATA}.intersection(archive.namelist()):
            (folder / name).write_bytes(_read_member(archive, archive.getinfo(name)))


def pack(path: Path, weights: bytes, target: Path) -> None:
    """Write the archive `path` with other weights. All other members stay as they are."""
    with zipfile.ZipFile(path) as archive, zipfile.ZipFile(target, "w") as copy:
        for info in archive.infolist():
            copy.writestr(info, weights if info.filename == WEIGHTS else archive.read(info))


def _version(metadata: bytes) -> str:
    return str(parse(metadata, METADATA).get("keras_version", ""))


def _check_name(name: str, info: zipfile.ZipInfo) -> None:
    parts = PurePosixPath(name.replace("\\", "/")).parts
    link = stat.S_ISLNK(info.external_attr >> 16)
    need(
        ".." not in parts and not name.startswith(("/", "\\")) and ":" not in name and not link,
        f"the archive has a member '{name}', whose path leads out of the archive",
        FileError,
    )


def _read_member(archive: zipfile.ZipFile, info: zipfile.ZipInfo, limit: int = 1 << 40) -> bytes:
    """Return a member of an archive, unpacked.

    Raise FileError if it claims more than `limit` bytes, or too many in proportion to its packed size.
    """
    limit = min(limit, max(FREE_UNPACKED_BYTES, MAX_UNPACK_RATIO * info.compress_size))
    need(
        info.file_size <= limit,
        f"{info.filename} claims {info.file_size} bytes, but only {info.compress_size} are stored",
        FileError,
    )
    with archive.open(info) as handle:
        data = handle.read(info.file_size + 1)
    rule = f"{info.filename} does not have the {info.file_size} bytes that it claims"
    need(len(data) == info.file_size, rule, FileError)
    return data


def _stored_bytes(path: Path, info: zipfile.ZipInfo) -> tuple[int, int]:
    """Return the start and end of a member that is stored without compression, as positions in the archive."""
    with path.open("rb") as handle:
        handle.seek(info.header_offset)
        head = handle.read(30)
    need(head[:4] == b"PK\x03\x04", f"{info.filename} is not at the position that the archive states", FileError)
    start = info.header_offset + 30 + int.from_bytes(head[26:28], "little") + int.from_bytes(head[28:30], "little")
    stop = start + info.file_size
    need(
        stop <= path.stat().st_size,
        f"{info.filename} claims {info.file_size} bytes, but the file ends before",
        FileError,
    )
    return start, stop
