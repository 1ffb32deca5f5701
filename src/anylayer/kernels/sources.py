"""Tell the libraries among the sources of layers from the rest, and which kernel computes which layer type."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from anylayer.errors import DialectError, InputError, nearest, need, wording
from anylayer.kernels.isolated import IsolatedLibrary, IsolatedType
from anylayer.kernels.layer import NativeType
from anylayer.kernels.library import Library, load_library
from anylayer.layer import Definition
from anylayer.layer.bound import choose
from anylayer.layer.native import Kernel
from anylayer.network import Network, Node

_CONSTANTS_AS_BLOBS = ("onnx", "openvino", "tensorflow")
"""The formats whose readers make blobs of the constant inputs of a user's layer."""
AnyType = NativeType | IsolatedType


def load_kernels(sources: Sequence[str], isolate: bool = False) -> dict[str, AnyType]:
    """Load libraries and return the kernel of each layer type. "Type=lib.so" chooses the library of a type.

    With `isolate` each library is loaded in a child process, so that a crash of its code is an error of the layer.

    Raises FileError for a file that is no library of layers, InputError where two libraries have the same type and
    none is chosen.
    """
    found: dict[str, AnyType] = {}
    chosen: dict[str, AnyType] = {}
    open_ = _Opener(isolate)
    for source in sources:
        type_, _, rest = source.partition("=")
        if rest and not Path(source).exists():
            chosen[type_] = open_.chosen(type_, rest)
            continue
        library = open_(source)
        for name in library.types:
            other = found.get(name)
            if other is not None and other.library is not library and name not in _named(sources):
                raise InputError(
                    f"two libraries have layer type '{name}': {other.origin} and {source}. Choose one: "
                    + wording(f"layers=[..., '{name}={source}']", f"-l {name}={source}")
                )
            found[name] = open_.kernel(library, name)
    return {**found, **chosen}


class _Opener:
    """Opens libraries, in this process or each in a child process."""

    def __init__(self, isolate: bool) -> None:
        self._isolate = isolate
        self._opened: dict[Path, IsolatedLibrary] = {}

    def __call__(self, path: str) -> Library | IsolatedLibrary:
        """Open a library."""
        if not self._isolate:
            return load_library(path)
        place = Path(path).resolve()
        if place not in self._opened:
            self._opened[place] = IsolatedLibrary(path)
        return self._opened[place]

    def kernel(self, library: Library | IsolatedLibrary, name: str) -> AnyType:
        """Return the kernel of a layer type."""
        if isinstance(library, IsolatedLibrary):
            return IsolatedType(library, name)
        return NativeType(library, name)

    def chosen(self, type_: str, path: str) -> AnyType:
        """Return the kernel of a type that is chosen with "Type=lib.so"."""
        library = self(path)
        known = library.types
        hint = nearest(type_, known) or f"; it has: {', '.join(known)}"
        need(type_ in known, f"{path} has no layer type '{type_}'{hint}", InputError)
        return self.kernel(library, type_)


def with_kernels(
    definitions: Mapping[str, list[Definition]], kernels: Mapping[str, Kernel], network: Network
) -> dict[str, list[Definition]]:
    """Return the definitions of a network's layer types, with the kernels that compute them.

    The NumPy class of a type stays its definition: it gives the shapes, and the kernel is compared with it. A
    built-in class is left out where several could be meant and the file does not say which, for a node with params
    in a message that the class does not read, and for a node with constant inputs in ONNX, OpenVINO and
    TensorFlow: a user's layer has them as blobs, a built-in layer as inputs.
    """
    made: dict[str, list[Definition]] = {}
    for type_, found in definitions.items():
        kernel = kernel_of(type_, kernels)
        known = [d for d in found if not d.is_code]
        if any(d.built_in for d in known) and not _fits(type_, known, network):
            known = []
        if kernel is None:
            made[type_] = list(found)
        elif not known:
            made[type_] = [Definition(type_, kernel, kernel.origin, kernel=kernel)]
        else:
            made[type_] = [replace(d, kernel=kernel) for d in known]
    return made


def _fits(type_: str, known: list[Definition], network: Network) -> bool:
    """Return whether the built-in classes of a type can compute every node of it."""
    nodes = [node for node in network.nodes if node.type == type_]
    if network.format in _CONSTANTS_AS_BLOBS and any(node.blobs for node in nodes):
        return False
    try:
        return all(_reads(choose(known, node, network.dialect), node) for node in nodes)
    except DialectError:
        return False


def _reads(definition: Definition, node: Node) -> bool:
    """Return whether a built-in class reads all the messages of a node's params."""
    cls: Any = definition.cls
    return all(name == cls.message or name in cls.also for name in node.params)


def kernel_of(type_: str, kernels: Mapping[str, Kernel]) -> Kernel | None:
    """Return the kernel of a layer type; Keras may lead the type with its package ("my>Gate")."""
    return kernels.get(type_) or kernels.get(type_.rpartition(">")[2])


def _named(sources: Sequence[str]) -> set[str]:
    """Return the types that a library is chosen for."""
    return {s.partition("=")[0] for s in sources if "=" in s and not Path(s).exists()}
