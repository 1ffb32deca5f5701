"""The .weights file: a header, and the numbers of all sections in one sequence (load_weights of src/parser.c)."""

from __future__ import annotations

import math
from collections.abc import Iterable
from pathlib import Path

import numpy as np

from anylayer.errors import FileError, at, need, reading, within
from anylayer.network import Array, Network
from anylayer.protobuf.binary import MappedFile
from anylayer.source import TracedNode

_VERSION = 3
"""Integers of the version: major, minor, revision. The number of images seen in training follows."""
_OLD = 1000
"""A version above this number has transposed matrices. Its bytes may be the learning rate and the momentum."""


def fill(network: Network, traced: Iterable[TracedNode]) -> None:
    """Give each node the weights that its layer asks for, in the order of the file.

    The numbers of a section without a known layer cannot be counted. If the network has one, it keeps the weights
    of the sections before, with a note.
    """
    path = Path(network.weights)
    with within(str(path)), reading(str(path)):
        values, is_transposed = _values(path)
        position = 0
        for item in traced:
            bound, node = item.bound, item.node
            if item.problem is not None:
                network.notes.append(
                    f"{path}: the weights of '{node.name}' and of the sections after it are not read, because its "
                    "layer is unknown or refused"
                )
                return
            layer = bound.instance if bound is not None and bound.definition.typed else None
            weights = [] if layer is None else [weight for _, weight in sorted(layer.wanted.items())]
            blobs = []
            for weight in weights:
                with at(node.place):
                    count, left = math.prod(weight.shape), len(values) - position
                    rule = f"the weights file ends in its {weight.what}: it has {left} of {count} numbers"
                    need(count <= left, rule, FileError)
                part, position = values[position : position + count], position + count
                if is_transposed and len(weight.shape) == 2 and getattr(layer, "transposes", False):
                    part = np.ascontiguousarray(part.reshape(weight.shape[::-1]).T)
                blobs.append(part.reshape(weight.shape))
            node.blobs, node.blob_names = blobs, [weight.what for weight in weights]
        rest, last = len(values) - position, network.nodes[-1].place
        need(rest == 0, f"the file has {rest} numbers more than the network, which ends in {last}", FileError)


def fork(path: Path) -> str | None:
    """Return the fork that wrote a weights file; None for revision 0, that of all others and of old forks."""
    with reading(str(path)), path.open("rb") as file:
        version = np.frombuffer(file.read(4 * _VERSION).ljust(4 * _VERSION, b"\0"), "<i4")
    return "alexeyab" if max(version) < _OLD and version[2] > 0 else None


def _values(path: Path) -> tuple[Array, bool]:
    """Return the numbers after the header, from a private memory map, and whether matrices are transposed."""
    size = path.stat().st_size
    need(size >= 4 * _VERSION + 4, f"the file has {size} bytes, which is not a whole header", FileError)
    data = MappedFile(path).data
    major, minor, _ = (int(v) for v in np.frombuffer(data, "<i4", _VERSION))
    need(major >= 0 and minor >= 0, f"this is not a weights file: its version is {major}.{minor}", FileError)
    start = 4 * _VERSION + (8 if 10 * major + minor >= 2 and max(major, minor) < _OLD else 4)
    rule = f"its {size} bytes are not a header and numbers of 4 bytes"
    need(size >= start and (size - start) % 4 == 0, rule, FileError)
    values = np.frombuffer(data, "<f4", (size - start) // 4, start).astype(np.float32, copy=False)
    return values, max(major, minor) > _OLD
