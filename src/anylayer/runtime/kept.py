"""The choices of engine "auto", kept in the user's cache folder, so that the next process measures nothing.

The part of the folder is "choices": see libraries/machine.py. A file is called KEY.json. KEY is the hash of all
that a choice depends on: the network's operators, constants and sizes, how it is compiled, the processor, and the
engines' files. So an engine whose outputs were wrong is not chosen again, either.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Protocol

import numpy as np

import anylayer
from anylayer.compile.plan import Plan
from anylayer.compile.segments import EnginePart
from anylayer.engines import engines
from anylayer.graph import Graph, Value
from anylayer.libraries.machine import (
    cache_folder,
    cached_files,
    delete_oldest,
    own_content,
    processor,
    processor_count,
)
from anylayer.network import Array
from anylayer.runtime.compilation import Compilation
from anylayer.runtime.pairs import constant_bytes

ALWAYS_MEASURE = "ANYLAYER_ALWAYS_MEASURE"
"""If this environment variable is set, no choice is read or kept."""
_MAX_KEPT = 1000
"""The number of choices that the folder keeps; those that were used longest ago are deleted."""
_MAX_BYTES = 1 << 30
"""Bytes of constants. To hash more of them takes longer than to measure the engines."""


class Digest(Protocol):
    """A hash of hashlib."""

    def update(self, data: bytes | memoryview, /) -> None:
        """Add bytes to what is hashed."""


@dataclass(frozen=True, slots=True)
class Choice:
    """The fastest way to run a network.

    `network` is its file and `shapes` the inputs' shapes, both for people. `engine` is the fastest engine alone.
    `parts` are those of the plan if several engines are faster together, and `later` those for other shapes.
    `timings` are the measured seconds per call, by engine.
    """

    network: str
    shapes: str
    engine: str
    parts: Sequence[EnginePart]
    later: Sequence[EnginePart]
    timings: Mapping[str, float]

    @property
    def runs_on(self) -> str:
        """The engine that runs the network, or the engines in computing order: "ENGINE+ENGINE"."""
        return "+".join(dict.fromkeys(part.engine for part in self.parts)) or self.engine


def key_of_choice(compilation: Compilation, plan: Plan) -> str | None:
    """Return the key of a plan's choice. None if choices are not kept, because there is no folder, because the
    network has too much data, or because the user says so.
    """
    if os.environ.get(ALWAYS_MEASURE):
        return None
    if cache_folder("choices") is None or constant_bytes(plan) > _MAX_BYTES:
        return None
    digest = hashlib.sha256()
    digest.update(processor().encode("utf-8", "surrogatepass"))
    how = (compilation.device, compilation.threads, compilation.precision, compilation.exact, processor_count())
    nodes = [(t.node.name, t.node.type, t.is_host_call, t.kernel is not None) for t in plan.nodes]
    digest.update(repr((anylayer.__version__, [*_packages()], how, plan.inputs, plan.outputs, nodes)).encode())
    for graph in plan.graphs:
        _add(digest, graph)
    return digest.hexdigest()


def load_choice(key: str, plan: Plan) -> Choice | None:
    """Return the choice that was kept under the key of a plan, or None. A damaged file is deleted."""
    folder = cache_folder("choices")
    path = folder / f"{key}.json" if folder is not None else None
    if path is None or not path.exists():
        return None
    choice = _read(path)
    if choice is not None and any(not 0 <= i < len(plan.nodes) for part in choice.parts for i in part.nodes):
        choice = None
    with suppress(OSError):
        path.unlink() if choice is None else os.utime(path)
    return choice


def keep_choice(key: str, choice: Choice) -> None:
    """Write a choice into the folder. An error of the file system is ignored: the choice is then not kept."""
    folder = cache_folder("choices")
    if folder is None:
        return
    with suppress(OSError):
        with TemporaryDirectory(prefix=".choice-", dir=folder) as temporary:
            path = Path(temporary) / f"{key}.json"
            path.write_text(json.dumps(asdict(choice)), "utf-8")
            path.chmod(0o600)
            path.replace(folder / path.name)
        delete_oldest("choices", ".json", _MAX_KEPT)


def kept_choices() -> list[tuple[Path, Choice]]:
    """Return the files of the folder and their choices, the last used first."""
    files = cached_files("choices", ".json")
    return [(path, choice) for path in files if (choice := _read(path)) is not None]


def _read(path: Path) -> Choice | None:
    """Return the choice of a file, or None if it holds none."""
    try:
        data = json.loads(own_content(path) or b"")
        parts, later = (
            tuple(EnginePart(str(part["engine"]), tuple(map(int, part["nodes"]))) for part in data[name])
            for name in ("parts", "later")
        )
        timings = {str(name): float(seconds) for name, seconds in data["timings"].items()}
        return Choice(str(data["network"]), str(data["shapes"]), str(data["engine"]), parts, later, timings)
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return None


def _packages() -> Iterator[tuple[str, str, int]]:
    """Yield name, file and time of change of each engine's package that is installed. Nothing is imported."""
    for name in engines():
        with suppress(ImportError, ValueError, OSError):
            spec = find_spec(name)
            if spec is not None and spec.origin:
                yield name, spec.origin, Path(spec.origin).stat().st_mtime_ns


def _add(digest: Digest, graph: Graph) -> None:
    """Add all that a graph computes to a hash: operators, attributes, types and constants."""
    digest.update(repr((graph.inputs, graph.outputs)).encode())
    hashed: set[Value] = set()
    for op in graph.ops:
        digest.update(repr((op.op, op.domain, op.kept, op.inputs, op.outputs)).encode())
        for value in op.inputs:
            if value is not None and value.const is not None and value not in hashed:
                hashed.add(value)
                _add_array(digest, value.const)
        for name, attribute in op.attrs.items():
            digest.update(name.encode())
            if isinstance(attribute, Graph):
                _add(digest, attribute)
            elif isinstance(attribute, np.ndarray):
                _add_array(digest, attribute)
            else:
                digest.update(repr(attribute).encode())
        if op.body is not None:
            _add(digest, op.body)


def _add_array(digest: Digest, array: Array) -> None:
    digest.update(repr((array.shape, array.dtype.str)).encode())
    digest.update(np.ascontiguousarray(array).reshape(-1).view(np.uint8).data)
