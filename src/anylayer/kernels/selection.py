"""Load libraries of layers and configurations of OpenCL kernels, and select the kernel of each layer type."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from anylayer.errors import AnyLayerError, DialectError, InputError, nearest, need, wording
from anylayer.kernels.files import is_configuration, is_library
from anylayer.kernels.isolated import MAX_SECONDS, IsolatedLibrary, IsolatedType
from anylayer.kernels.layer import NativeType
from anylayer.kernels.library import Library, load_library
from anylayer.kernels.opencl.files import KernelSettings, OpenCL, user_file
from anylayer.kernels.opencl.layer import KernelFile, OpenCLType
from anylayer.layer import Definition
from anylayer.layer.bound import choose, shapes_only
from anylayer.layer.native import LoadedKernel
from anylayer.network import Network, Node

_CONSTANTS_AS_BLOBS = ("onnx", "openvino", "tensorflow", "tflite")
"""The formats whose readers make blobs of the constant inputs of a user's layer."""
AnyType = NativeType | IsolatedType | OpenCLType
AnyLibrary = Library | IsolatedLibrary | KernelFile


def load_kernels(
    libraries: Sequence[str], isolate: bool | float = False, settings: KernelSettings | None = None
) -> dict[str, AnyType]:
    """Load libraries and the configurations that `settings` name. Return the kernel of each layer type.
    "Type=lib.so" and "Type=kernels.xml" choose the file of a type.

    With `isolate` each library is loaded in a child process, so that a crash of its code is an error of the layer.
    A number is the time limit of a call in seconds.

    Raises FileError for a file that is neither, InputError where two files have the same type and none is chosen.
    """
    kernels: dict[str, AnyType] = {}
    chosen: dict[str, AnyType] = {}
    settings = settings or KernelSettings(OpenCL())
    open_ = _Opener(isolate, settings)
    configurations = [str(file) for file in settings.asked.files]
    for source in configurations:
        _need_configuration(source)
    sources = [*libraries, *configurations]
    with_file = {s.partition("=")[0] for s in sources if "=" in s and not Path(s).exists()}
    for source in sources:
        type_, _, rest = source.partition("=")
        if rest and not Path(source).exists():
            chosen[type_] = open_.chosen(type_, rest)
            continue
        library = open_(source)
        for name in library.types:
            other = kernels.get(name)
            if other is not None and other.library is not library and name not in with_file:
                raise _ambiguous(name, other.origin, source)
            kernels[name] = open_.kernel(library, name)
    return {**kernels, **chosen}


def _need_configuration(source: str) -> None:
    """Raise InputError if `source`, which is given as a configuration of OpenCL kernels, is another file."""
    path = source if Path(source).exists() else source.rpartition("=")[2]
    remedy = wording("layers=[...]", f"-l {path}")
    rule = f"is a library or a Python file, not a configuration of OpenCL kernels (.xml): give it as {remedy}"
    need(not is_library(path) and not path.endswith(".py"), f"{path}: {rule}", InputError)
    rule = "a configuration of OpenCL kernels is an .xml file, which names the sources (.cl)"
    need(is_configuration(path), f"{path}: {rule}", InputError)


def _ambiguous(name: str, one: str, other: str) -> InputError:
    """Return the error for two files that have the same layer type."""
    opencl = is_configuration(other)
    argument, option = ("kernels", "-c") if opencl else ("layers", "-l")
    what = "files" if opencl else "libraries"
    return InputError(
        f"two {what} have layer type '{name}': {one} and {other}. Choose one: "
        + wording(f"{argument}=[..., '{name}={other}']", f"{option} {name}={other}")
    )


def load_user_kernels(settings: KernelSettings) -> dict[str, OpenCLType]:
    """Return the kernels of the user's own configuration; none where there is no such file or it is not wanted."""
    path = user_file() if settings.asked.user_file else None
    if path is None:
        return {}
    try:
        return KernelFile(str(path), settings).kernels
    except AnyLayerError as error:
        remedy = wording("kernels=anylayer.OpenCL(user_file=False)", "--no-user-kernels")
        error.message += f". To do without the kernels of your configuration folder: {remedy}"
        raise


def without_given(personal: Mapping[str, OpenCLType], given: Mapping[str, AnyType]) -> dict[str, OpenCLType]:
    """Return the kernels of the user's own configuration for types that no given file defines. A given OpenCL
    kernel gets a note about the one that it replaces.
    """
    for name, kernel in personal.items():
        other = given.get(name)
        if isinstance(other, OpenCLType):
            other.notes.append(f"{kernel.origin} has a kernel of type '{name}', too; {other.origin} is used")
    return {name: kernel for name, kernel in personal.items() if name not in given}


class _Opener:
    """Opens libraries, in this process or each in a child process, and configurations."""

    def __init__(self, isolate: bool | float, settings: KernelSettings) -> None:
        self._isolate, self._settings = isolate, settings
        self._opened: dict[Path, IsolatedLibrary] = {}
        self._read: dict[Path, KernelFile] = {}

    def __call__(self, path: str) -> AnyLibrary:
        """Open a library or a configuration, once."""
        if is_configuration(path):
            return self._read.setdefault(Path(path).resolve(), KernelFile(path, self._settings))
        if not self._isolate:
            return load_library(path)
        place = Path(path).resolve()
        if place not in self._opened:
            limit = MAX_SECONDS if self._isolate is True else float(self._isolate)
            need(limit > 0, f"isolate={self._isolate}: the time limit must be positive", InputError)
            self._opened[place] = IsolatedLibrary(path, limit)
        return self._opened[place]

    def kernel(self, library: AnyLibrary, name: str) -> AnyType:
        """Return the kernel of a layer type."""
        if isinstance(library, KernelFile):
            return library.kernels[name]
        if isinstance(library, IsolatedLibrary):
            return IsolatedType(library, name)
        return NativeType(library, name)

    def chosen(self, type_: str, path: str) -> AnyType:
        """Return the kernel of a type that is chosen with "Type=lib.so"."""
        library = self(path)
        types = library.types
        hint = nearest(type_, types) or f"; it has: {', '.join(types)}"
        need(type_ in types, f"{path} has no layer type '{type_}'{hint}", InputError)
        return self.kernel(library, type_)


def with_kernels(
    definitions: Mapping[str, list[Definition]], kernels: Mapping[str, LoadedKernel], network: Network
) -> dict[str, list[Definition]]:
    """Return the definitions of a network's layer types, with the kernels that compute them.

    The NumPy class of a type stays its definition: it determines the shapes, and the kernel is compared with it. A
    built-in class is not used if the choice between several is ambiguous, if a node has params in a message that
    the class does not read, or if a node has constant inputs in ONNX, OpenVINO or TensorFlow. These are blobs of a
    user's layer, but inputs of a built-in layer.
    """
    result: dict[str, list[Definition]] = {}
    for type_, classes in definitions.items():
        loaded = kernel_of(type_, kernels)
        if loaded is None:
            result[type_] = list(classes)
            continue
        usable = [d for d in classes if not d.is_code]
        shapes = None if loaded.states_shapes else shapes_only(usable)
        kernel = loaded.within(network, shapes)
        if shapes is not None or (any(d.built_in for d in usable) and not _fits(type_, usable, network)):
            usable = []
        result[type_] = [replace(d, kernel=kernel) for d in usable] or [
            Definition(type_, kernel, kernel.origin, kernel=kernel)
        ]
    return result


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


def kernel_of(type_: str, kernels: Mapping[str, LoadedKernel]) -> LoadedKernel | None:
    """Return the kernel of a layer type; Keras may put its package in front of the type ("my>Gate")."""
    return kernels.get(type_) or kernels.get(type_.rpartition(">")[2])
