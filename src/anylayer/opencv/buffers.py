"""What a network is read from: files, or buffers with their contents."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from anylayer import api
from anylayer.errors import AnyLayerError, InputError, need
from anylayer.network import Network

DIALECT = "opencv"
"""The dialect of Caffe: layers mean what they mean in OpenCV."""
Content = str | Path | bytes
"""A path, or the content of a file."""


def content(given: Any, suffix: str) -> Content | None:
    """Return a path (str or Path) as it is, a buffer (bytes, bytearray, uint8 array) as bytes, and None for none.

    suffix: of the file that a buffer stands for, for messages.
    """
    if given is None or isinstance(given, (str, Path, bytes)):
        return given or None
    if isinstance(given, (bytearray, memoryview)):
        return bytes(given) or None
    array = np.asarray(given)
    need(
        array.dtype in (np.uint8, np.int8) or array.size == 0,
        f"a {suffix} is a path or a buffer of bytes (bytes, bytearray, numpy.uint8), got {type(given).__name__}",
        InputError,
    )
    return array.tobytes() or None


@dataclass(slots=True)
class NetworkFiles:
    """The files of a network.

    `model` and `weights` are what `anylayer.read` takes. `suffixes` are those of the files that buffers stand for.
    `format` is the only format that the network may have, "" for any.
    """

    model: Content
    weights: Content | None = None
    suffixes: tuple[str, str] = (".model", ".weights")
    format: str = ""
    options: dict[str, Any] = field(default_factory=dict)

    def read(self, layers: Mapping[str, Any]) -> api.Net:
        """Read the network with these layer classes."""
        with tempfile.TemporaryDirectory(prefix="anylayer-") as folder:
            try:
                files = [
                    self._file(given, Path(folder) / f"buffer{suffix}")
                    for given, suffix in zip((self.model, self.weights), self.suffixes)
                ]
                net = api.read(files[0] or "", files[1], layers=layers, **self._options(files[0]))
            except AnyLayerError as error:
                error.places = [_without(folder, place) for place in error.places]
                error.message = _without(folder, error.message)
                raise
        _rename(net.network, folder)
        format_of = net.network.format
        need(
            self.format in ("", format_of),
            f"{self._name()} is a network of format {format_of}, not {self.format}; read it with readNet",
            InputError,
        )
        return net

    def _name(self) -> str:
        return "the buffer" if isinstance(self.model, bytes) else str(self.model)

    def _options(self, model: str | Path | None) -> dict[str, Any]:
        """Return the options that the model's format has."""
        options = api.read_options(model) if self.options and model and Path(model).exists() else {}
        return {name: value for name, value in self.options.items() if name in options}

    @staticmethod
    def _file(source: Content | None, stand_in: Path) -> str | Path | None:
        """Return the path of a file; a buffer is written to `stand_in`."""
        if not isinstance(source, bytes):
            return source
        stand_in.write_bytes(source)
        return stand_in


def _rename(network: Network, folder: str) -> None:
    """Remove the folder of the buffers' stand-ins, which is deleted, from the names in messages."""
    network.source, network.weights = _without(folder, network.source), _without(folder, network.weights)
    network.notes[:] = [_without(folder, note) for note in network.notes]
    for node in network.nodes:
        node.place = _without(folder, node.place)


def _without(folder: str, text: str) -> str:
    return text.replace(folder + os.sep, "")


def network_files(
    model: Content | None, weights: Content | None, suffixes: tuple[str, str], format: str, **options: Any
) -> NetworkFiles:
    """Return the files of a network of one format, which is read in OpenCV's dialect.

    Raises InputError where the network's own file is missing.
    """
    if model is None:
        raise InputError(f"the network is missing: give the path of a {suffixes[0]}, or a buffer with its content")
    return NetworkFiles(model, weights, suffixes, format, {"dialect": DIALECT, **options})
