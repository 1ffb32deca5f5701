"""Tell the libraries among the sources of layers from the rest, and which kernel computes which layer type."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from anylayer.errors import DialectError, InputError, nearest, need, wording
from anylayer.kernels.layer import NativeType
from anylayer.kernels.library import load_library
from anylayer.layer import Definition
from anylayer.layer.bound import choose
from anylayer.layer.native import Kernel
from anylayer.network import Network


def load_kernels(sources: Sequence[str]) -> dict[str, NativeType]:
    """Load libraries and return the kernel of each layer type. "Type=lib.so" chooses the library of a type.

    Raises FileError for a file that is no library of layers, InputError where two libraries have the same type and
    none is chosen.
    """
    found: dict[str, NativeType] = {}
    chosen: dict[str, NativeType] = {}
    for source in sources:
        type_, _, rest = source.partition("=")
        if rest and not Path(source).exists():
            chosen[type_] = _one(type_, rest)
            continue
        library = load_library(source)
        for name in library.types:
            other = found.get(name)
            if other is not None and other.library is not library and name not in _named(sources):
                raise InputError(
                    f"two libraries have layer type '{name}': {other.origin} and {source}. Choose one: "
                    + wording(f"layers=[..., '{name}={source}']", f"-l {name}={source}")
                )
            found[name] = NativeType(library, name)
    return {**found, **chosen}


def with_kernels(
    definitions: Mapping[str, list[Definition]], kernels: Mapping[str, Kernel], network: Network
) -> dict[str, list[Definition]]:
    """Return the definitions of a network's layer types, with the kernels that compute them.

    The NumPy class of a type stays its definition: it gives the shapes, and the kernel is compared with it. A
    built-in class is left out where several could be meant and the file does not tell which, and in TensorFlow's
    graphs, where a layer of the user's is given constants as blobs and a built-in one as inputs.
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
    """Return whether every node of a type tells which of the built-in classes it means."""
    if network.format == "tensorflow":
        return False
    try:
        for node in network.nodes:
            if node.type == type_:
                choose(known, node, network.dialect)
    except DialectError:
        return False
    return True


def kernel_of(type_: str, kernels: Mapping[str, Kernel]) -> Kernel | None:
    """Return the kernel of a layer type; Keras may lead the type with its package ("my>Gate")."""
    return kernels.get(type_) or kernels.get(type_.rpartition(">")[2])


def _named(sources: Sequence[str]) -> set[str]:
    """Return the types that a library is chosen for."""
    return {s.partition("=")[0] for s in sources if "=" in s and not Path(s).exists()}


def _one(type_: str, path: str) -> NativeType:
    library = load_library(path)
    known = library.types
    hint = nearest(type_, known) or f"; it has: {', '.join(known)}"
    need(type_ in known, f"{path} has no layer type '{type_}'{hint}", InputError)
    return NativeType(library, type_)
