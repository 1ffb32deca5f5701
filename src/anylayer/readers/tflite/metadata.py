"""What a file says besides its operators: names of signatures, and TFLite Metadata with labels and normalization.

Metadata are a FlatBuffer of their own in a buffer of the model. Files with labels are members of a ZIP archive
that is appended to the model.
Source: metadata_schema.fbs of tensorflow/tflite-support.
"""

from __future__ import annotations

import zipfile
import zlib
from pathlib import Path

import numpy as np

from anylayer.errors import FileError, need, some
from anylayer.network import Array, Network, Preprocess
from anylayer.readers._limits import MAX_NODES, MAX_OPERATION_OUTPUTS
from anylayer.readers.tflite.flatbuffer import FlatBuffer, FlatTable
from anylayer.readers.tflite.schema import TABLES

_MAX_LABEL_BYTES = 1 << 22
"""Bytes of a file with labels."""
_IMAGE, _NORMALIZATION, _LABELS = 2, 1, (2, 3)
"""ContentProperties of images, ProcessUnitOptions of a normalization, AssociatedFileType of labels."""
_GRAY = 2


def add_signatures(model: FlatTable, network: Network, names: list[str]) -> None:
    """Add the names that the signatures of subgraph 0 have for its inputs and outputs. names: of its tensors."""
    for signature in model.tables("signature_defs", "SignatureDef", MAX_OPERATION_OUTPUTS):
        key = signature.text("signature_key")
        if signature.number("subgraph_index", "I"):
            network.notes.append(f"signature '{key}' is another subgraph, which is not read")
            continue
        texts = []
        for group in ("inputs", "outputs"):
            for entry in signature.tables(group, "TensorMap", MAX_OPERATION_OUTPUTS):
                name, index = entry.text("name"), entry.number("tensor_index", "I")
                need(index < len(names), f"signature '{key}' names tensor {index} of {len(names)}", FileError)
                texts.append(f"{name} is '{names[index]}'")
                network.blobs.setdefault(name, names[index])
        network.notes.append(f"signature '{key}': {some(texts, 10)}")


def add_metadata(model: FlatTable, buffers: list[FlatTable], network: Network) -> None:
    """Add the normalization of inputs and the labels of outputs. Raise FileError for damaged metadata."""
    for entry in model.tables("metadata", "Metadata", MAX_NODES):
        if entry.text("name") != "TFLITE_METADATA":
            continue
        index = entry.number("buffer", "I")
        need(index < len(buffers), f"there is no buffer {index} of {len(buffers)}", FileError)
        data = model.buffer.take(buffers[index].view("data")).tobytes()
        if data[4:8] != b"M001":
            network.notes.append("its metadata are of a version that is not known, and are not read")
            continue
        graphs = FlatBuffer(data).root("ModelMetadata")
        for graph in graphs.tables("subgraph_metadata", "SubGraphMetadata", MAX_NODES)[:1]:
            limit = MAX_OPERATION_OUTPUTS
            for name, table in zip(network.inputs, graph.tables("input_tensor_metadata", "TensorMetadata", limit)):
                _add_preprocessing(table, network, name)
            for name, table in zip(
                network.outputs, graph.tables("output_tensor_metadata", "TensorMetadata", limit)
            ):
                _add_labels(table, network, name)


def _add_preprocessing(table: FlatTable, network: Network, name: str) -> None:
    content = table.table("content", TABLES["Content"])
    if content is None or content.number("content_properties_type", "B") != _IMAGE or name not in network.layouts:
        return
    properties = content.table("content_properties", TABLES["ImageProperties"])
    is_gray = properties is not None and properties.number("color_space", "b") == _GRAY
    if not is_gray:
        network.channel_orders[name] = "RGB"
    for unit in table.tables("process_units", "ProcessUnit", MAX_OPERATION_OUTPUTS):
        options = unit.table("options", TABLES["NormalizationOptions"])
        if unit.number("options_type", "B") != _NORMALIZATION or options is None:
            continue
        mean, deviation = (options.buffer.take(options.view(key, np.float32)) for key in ("mean", "std"))
        kind, channels = network.input_dtype(name), 1 if is_gray else 3
        fits = mean.size in (1, channels) and deviation.size in (1, channels)
        rule = f"input '{name}': its normalization has {mean.size} means and {deviation.size} deviations"
        need(fits and bool((deviation > 0).all() and np.isfinite([*mean, *deviation]).all()), rule, FileError)
        if kind.kind == "f":
            network.preprocess[name] = _preprocess(np.resize(mean, channels), deviation, is_gray)
            network.notes.append(f"input '{name}' takes (image - {_text(mean)}) / {_text(deviation)}")


def _preprocess(mean: Array, deviation: Array, is_gray: bool) -> Preprocess:
    factors = tuple(1 / float(d) for d in deviation)
    scale = factors[0] if len({*factors}) == 1 else factors
    return Preprocess(scale, mean.copy() if mean.any() else None, source="the file's metadata", gray=is_gray)


def _text(values: Array) -> str:
    return ", ".join(f"{v:g}" for v in ({*values.tolist()} if len({*values.tolist()}) == 1 else values))


def _add_labels(table: FlatTable, network: Network, name: str) -> None:
    files = table.tables("associated_files", "AssociatedFile", MAX_OPERATION_OUTPUTS)
    labels = [file for file in files if file.number("type", "b") in _LABELS]
    for file in sorted(labels, key=lambda file: file.text("locale"))[:1]:  # first the one without a language
        member = file.text("name")
        lines = _member(Path(network.source), member).decode("utf-8", "replace").splitlines()
        network.labels[name] = ["".join(c for c in line.strip() if c.isprintable()) for line in lines]
        network.notes.append(f"labels of output '{name}', {member}: {some(network.labels[name])}")


def _member(path: Path, name: str) -> bytes:
    """Return a member of the archive that is appended to a model."""
    try:
        with zipfile.ZipFile(path) as archive, archive.open(name) as file:
            data = file.read(_MAX_LABEL_BYTES + 1)
    except (KeyError, OSError, EOFError, RuntimeError, ValueError, zipfile.BadZipFile, zlib.error) as error:
        raise FileError(f"its labels '{name}' cannot be read: {error}") from error
    need(len(data) <= _MAX_LABEL_BYTES, f"its labels '{name}' have more than {_MAX_LABEL_BYTES} bytes", FileError)
    return data
