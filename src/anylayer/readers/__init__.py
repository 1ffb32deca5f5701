"""Readers: one format per folder. `anylayer.read` finds them by listing this folder.

A reader is a module `anylayer.readers.<format>` that meets the protocol `Reader`. Readers know neither engines nor
writers nor each other. Code that several of them share is in files whose names begin with "_".
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol, cast, get_args, get_type_hints

from anylayer.errors import some
from anylayer.folders import load, modules
from anylayer.network import Network


@dataclass(frozen=True, slots=True)
class Option:
    """An option of `anylayer.read` for one format: its documentation, name, and type as Python spells it."""

    doc: str
    name: str = ""
    type: str = ""


def options_of(declared: Any) -> dict[str, Option]:
    """Return the options that a TypedDict declares, each as `name: Annotated[type, Option("What it means.")]`."""
    options = {}
    for name, hint in get_type_hints(declared, include_extras=True).items():
        kind, option = get_args(hint)[:2]
        text = kind.__name__ if isinstance(kind, type) else str(kind)
        options[name] = replace(
            option, name=name, type=text.replace("pathlib.", "").replace("collections.abc.", "")
        )
    return options


class Reader(Protocol):
    """A module that reads one format.

    WHAT: what it reads, with an article: "an ONNX model (.onnx)".
    OPTIONS: the options that `read` takes besides the weights. `anylayer.read` refuses every other option by name.

    A reader may define three more functions. `complete(network, definitions)` is called after `read` with the
    definitions of each layer type, and sets params that the layer classes compute from the network. `fill(network,
    definitions, trace)` is called after it, for a format whose weights file is one sequence of numbers: it gives
    each node the weights that its layer asks for when `trace` (anylayer.compile.nodes.trace_nodes) calls it.
    `prove(files, params)` compares the parameters in files that the format's writer has written (see
    anylayer.source.Written.params). With KERNEL_TYPES = True `read` also takes `kernel_types`, the layer types
    that OpenCL kernels compute, and keeps the attributes of their layers.
    """

    WHAT: str
    OPTIONS: Mapping[str, Option]

    def match(self, path: Path) -> bool:
        """Return whether this reader reads an existing file or folder, judged by its content or its name."""

    def read(
        self, path: Path, weights: Path | None = None, *, user_types: frozenset[str], **options: Any
    ) -> Network:
        """Read a network with its weights.

        `user_types` are the layer types that the user defines. `options` are the options of OPTIONS that the
        caller has set. Raise FileError, NetworkError or LayerError, and InputError for a wrong value of an option.
        """


def readers() -> list[str]:
    """Return the names of the formats that are read."""
    return [*modules("readers")]


def load_reader(name: str) -> Reader:
    """Return a format's reader."""
    return cast(Reader, load("readers", name))


def reader_of(path: Path) -> tuple[str, Reader] | None:
    """Return the format of an existing file or folder and its reader; None where no reader takes it."""
    candidates = ((name, load_reader(name)) for name in readers())
    return next(((name, reader) for name, reader in candidates if reader.match(path)), None)


def networks_in(folder: Path) -> str:
    """Return the names of the networks among a folder's files, at most three of them, for a message."""
    files = sorted(p for p in folder.iterdir() if p.is_file() and p.suffix != ".py")
    models = [p.name for p in files[:100] if reader_of(p) is not None]
    return f" that holds {some(models)}: give one of these files" if models else ""


def is_keras_file(path: Path) -> bool:
    """Return whether a file is a Keras model or the weights of one."""
    if not path.is_file():
        return False
    with path.open("rb") as handle:
        head = handle.read(8)
    return head.startswith((b"\x89HDF", b"PK\x03\x04")) and load_reader("keras").match(path)
