"""A configuration file of OpenCL kernels: a sequence of <CustomLayer> elements."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path

from anylayer.errors import FileError, at, nearest, need, reading, wording
from anylayer.kernels.opencl.formulas import Formula, parse_formulas
from anylayer.libraries.markup import Element, Limits, parse_sequence

FORMATS = ("BFYX", "BYXF", "YXFB", "FYXB", "ANY")
"""The orders of axes in memory, the outermost axis first. ANY means the order that the network has."""
_LIMITS = Limits("a configuration of kernels", elements=100_000, nesting=8)
_MAX_BYTES = 1 << 24
"""The largest size of a configuration and of each source file, in bytes."""
_ARGUMENTS = 256
"""The number of arguments that a kernel may have."""
_ATTRIBUTES = {
    "CustomLayer": {"name": True, "type": True, "version": True},
    "Kernel": {"entry": True},
    "Source": {"filename": True},
    "Define": {"name": True, "param": False, "type": False, "default": False},
    "Buffers": {},
    "Data": {"name": True, "arg-index": True},
    "Tensor": {"arg-index": True, "type": True, "port-index": False, "format": False, "size": False},
    "CompilerOptions": {"options": True},
    "WorkSizes": {"global": False, "local": False, "dim": False},
}
"""The attributes of each element, and whether they are required."""
_MAX_PARTS = 1 << 20  # elements of one kind in an element
_CHILDREN = {
    "CustomLayer": {"Kernel": (1, 1), "Buffers": (1, 1), "CompilerOptions": (0, _MAX_PARTS), "WorkSizes": (0, 1)},
    "Kernel": {"Source": (1, _MAX_PARTS), "Define": (0, _MAX_PARTS)},
    "Buffers": {"Data": (0, _MAX_PARTS), "Tensor": (1, _MAX_PARTS)},
}
"""The allowed numbers of each element inside an element."""
_TYPES = ("int", "float", "int[]", "float[]")
_NAME = re.compile(r"[A-Za-z_]\w*", re.ASCII)
_DIM = re.compile(r"output|input(?:,(\d{1,3}))?")


@dataclass(frozen=True, slots=True)
class Define:
    """A #define of the user. `value` is the default or None; `param` may be empty."""

    name: str
    param: str
    type: str
    value: str | None
    line: int


@dataclass(frozen=True, slots=True)
class KernelArgument:
    """An argument of the kernel: an "input", "output", "internal" array, or a "data" blob.

    `port` is the index of the input or output, `blob` the name of a blob, `size` the bytes of an internal array.
    """

    kind: str
    line: int
    port: int = 0
    format: str = "BFYX"
    blob: str = ""
    size: Formula | None = None


@dataclass(frozen=True, slots=True)
class SourceFile:
    """A source file: its name as the configuration writes it, its path and its text."""

    name: str
    path: Path
    text: str


@dataclass(frozen=True, slots=True)
class CustomLayer:
    """A layer type of a configuration.

    `arguments` are in the order of the kernel's parameters. `dim` is the input whose sizes the formulas have, None
    for output 0. `whole` and `local` are the formulas of the work sizes; `whole` is empty for the number of values
    of output 0.
    """

    type: str
    file: str
    line: int
    entry: str
    sources: tuple[SourceFile, ...]
    defines: tuple[Define, ...]
    arguments: tuple[KernelArgument, ...]
    options: tuple[str, ...]
    whole: tuple[Formula, ...]
    local: tuple[Formula, ...]
    dim: int | None

    @property
    def place(self) -> str:
        return f"{self.file}:{self.line}"


def _read(path: Path, what: str) -> bytes:
    size = path.stat().st_size
    need(size <= _MAX_BYTES, f"{what} has {size} bytes, the limit is {_MAX_BYTES}", FileError)
    return path.read_bytes()


def read_configuration(path: Path, folders: Sequence[Path] = ()) -> dict[str, CustomLayer]:
    """Return the layer types of a configuration file. Its sources may be in its own folder and in `folders`.

    Raise FileError, with the line, for what a configuration cannot have.
    """
    file = str(path)
    with reading(file):
        need(path.is_file(), f"{file}: there is no such configuration of kernels", FileError)
        content = _read(path, f"{file}: the file")
        with at(file):
            elements = parse_sequence(content, _LIMITS)
            need(elements, "there is no <CustomLayer> in the file", FileError)
    layers: dict[str, CustomLayer] = {}
    for element in elements:
        with at(f"{file}:{element.line}"):
            other = (
                ": this is an OpenVINO model (IR), not a configuration of kernels" if element.tag == "net" else ""
            )
            need(
                element.tag == "CustomLayer",
                f"<{element.tag}> is unknown, expected <CustomLayer>{other}",
                FileError,
            )
        _check(element, file)
        layer = _LayerReader(path, folders).layer(element)
        with at(layer.place):
            first = layers.setdefault(layer.type, layer)
            need(first is layer, f"layer type '{layer.type}' has a kernel in line {first.line} already", FileError)
    return layers


def _check(element: Element, file: str) -> None:
    """Raise FileError for an element or attribute that is unknown, missing or repeated."""
    known, inside = _ATTRIBUTES[element.tag], _CHILDREN.get(element.tag, {})
    with at(f"{file}:{element.line}"):
        for name, value in element.attributes.items():
            need(name in known, f"<{element.tag}> has no attribute '{name}'{_hint(name, known)}", FileError)
            bad = next((c for c in value if not c.isprintable()), "")
            need(not bad, f"'{name}' of <{element.tag}> has the character {bad!r}", FileError)
        for name, required in known.items():
            there = bool(element.attributes.get(name)) or not required
            need(there, f"<{element.tag}> has no '{name}'", FileError)
        need(not element.text, f"<{element.tag}> contains text: {element.text[:40]!r}", FileError)
        for tag, (low, high) in inside.items():
            count = sum(1 for _ in element.all(tag))
            few = f"<{element.tag}> has no <{tag}>"
            need(count >= low, few, FileError)
            need(count <= high, f"<{element.tag}> has {count} <{tag}>, at most {high} is possible", FileError)
    for child in element.children:
        with at(f"{file}:{child.line}"):
            need(
                child.tag in inside,
                f"<{child.tag}> in <{element.tag}> is unknown{_hint(child.tag, inside)}",
                FileError,
            )
        _check(child, file)


def _hint(name: str, known: Iterable[str]) -> str:
    return nearest(name, known) or f"; it has: {', '.join(known) or 'none'}"


class _LayerReader:
    """A conversion of a checked element to a CustomLayer."""

    def __init__(self, path: Path, folders: Sequence[Path]) -> None:
        self.file = str(path)
        self.home = path.resolve().parent
        self.folders = [self.home, *(folder.resolve() for folder in folders)]

    def layer(self, element: Element) -> CustomLayer:
        attrs = element.attributes
        with self._at(element):
            need(attrs["type"] == "SimpleGPU", f"type is '{attrs['type']}', expected 'SimpleGPU'", FileError)
            need(attrs["version"] == "1", f"version is '{attrs['version']}', expected '1'", FileError)
        kernel, buffers = next(element.all("Kernel")), next(element.all("Buffers"))
        with self._at(kernel):
            entry = kernel.attributes["entry"]
            need(_NAME.fullmatch(entry), f"entry '{entry}' is not the name of a function", FileError)
        sizes = element.child("WorkSizes")
        return CustomLayer(
            attrs["name"],
            self.file,
            element.line,
            entry,
            tuple(self._source(source) for source in kernel.all("Source")),
            tuple(self._define(define) for define in kernel.all("Define")),
            self._arguments(buffers),
            tuple(word for options in element.all("CompilerOptions") for word in self._options(options)),
            self._formulas(sizes, "global", 3),
            self._formulas(sizes, "local", 3),
            self._dim(sizes),
        )

    def _at(self, element: Element) -> AbstractContextManager[None]:
        return at(f"{self.file}:{element.line}")

    def _inside(self, name: str, what: str) -> Path:
        """Return the path of a file or folder that the configuration names."""
        try:
            path = (self.home / name).resolve()
        except RuntimeError:  # a loop of symbolic links
            raise FileError(f"{what} is a loop of links") from None
        remedy = wording(f"anylayer.OpenCL(..., folders=['{path.parent}'])", f"--kernel-folder {path.parent}")
        need(
            any(path.is_relative_to(folder) for folder in self.folders),
            f"{what} is outside of the configuration's folder. If it is the right one, allow its folder: {remedy}",
            FileError,
        )
        return path

    def _source(self, element: Element) -> SourceFile:
        name = element.attributes["filename"]
        with self._at(element), reading(name):
            path = self._inside(name, f"source {name}")
            need(path.is_file(), f"there is no source {name} in {self.home}", FileError)
            try:
                text = _read(path, f"source {name}").removeprefix(b"\xef\xbb\xbf").decode()
            except UnicodeDecodeError as error:
                raise FileError(f"source {name} is not UTF-8 at byte {error.start}") from None
            need("\0" not in text, f"source {name} has a NUL character", FileError)
            return SourceFile(name, path, text)

    def _define(self, element: Element) -> Define:
        attributes = element.attributes
        with self._at(element):
            name, type_ = attributes["name"], attributes.get("type", "")
            need(_NAME.match(name), f"name '{name}' does not begin with a name of the preprocessor", FileError)
            need(type_ in ("", *_TYPES), f"type '{type_}' is unknown; types: {', '.join(_TYPES)}", FileError)
        return Define(name, attributes.get("param", ""), type_, attributes.get("default"), element.line)

    def _arguments(self, buffers: Element) -> tuple[KernelArgument, ...]:
        """Return the kernel's arguments in order. Each index is bound once."""
        arguments: dict[int, KernelArgument] = {}
        for element in buffers.children:
            with self._at(element):
                index = self._index(element, "arg-index", _ARGUMENTS)
                earlier = arguments.get(index)
                if earlier is not None:
                    raise FileError(f"argument {index} of the kernel is bound in line {earlier.line} already")
                arguments[index] = self._data(element) if element.tag == "Data" else self._tensor(element)
        with self._at(buffers):
            missing = next((i for i in range(len(arguments)) if i not in arguments), None)
            need(missing is None, f"argument {missing} of the kernel is not bound", FileError)
            need(any(a.kind == "output" for a in arguments.values()), "no argument is an output", FileError)
        return tuple(arguments[i] for i in range(len(arguments)))

    def _index(self, element: Element, name: str, limit: int) -> int:
        text = element.attributes[name]
        good = text.isascii() and text.isdigit() and len(text) < 5 and int(text) < limit
        need(good, f"{name} '{text}' is not a number from 0 to {limit - 1}", FileError)
        return int(text)

    def _data(self, element: Element) -> KernelArgument:
        return KernelArgument("data", element.line, blob=element.attributes["name"])

    def _tensor(self, element: Element) -> KernelArgument:
        attributes = element.attributes
        kind = attributes["type"]
        kinds = ("input", "output", "internal")
        need(kind in kinds, f"type '{kind}' of <Tensor> is unknown; types: {', '.join(kinds)}", FileError)
        if kind == "internal":
            need(attributes.get("size", "").strip(), "an internal <Tensor> has no 'size'", FileError)
            (size,) = parse_formulas(attributes["size"], 1)
            return KernelArgument(kind, element.line, size=size)
        need("port-index" in attributes, "<Tensor> has no 'port-index'", FileError)
        need("size" not in attributes, f"'size' is for internal tensors, this is an {kind}", FileError)
        format_ = attributes.get("format", "BFYX")
        good = format_ in FORMATS or (format_.islower() and format_.upper() in FORMATS)
        need(good, f"format '{format_}' is unknown; formats: {', '.join(FORMATS)}", FileError)
        port = self._index(element, "port-index", _ARGUMENTS)
        return KernelArgument(kind, element.line, port, format_.upper())

    def _options(self, element: Element) -> list[str]:
        """Return the compiler's options. The path of -I is relative to the configuration."""
        with self._at(element):
            try:
                words = shlex.split(element.attributes["options"])
            except ValueError as error:
                raise FileError(f"options cannot be split into words: {error}") from None
            options: list[str] = []
            for word in words:
                if options and options[-1] == "-I":
                    options[-1] = f"-I{self._inside(word, f'folder {word}')}"
                elif word.startswith("-I") and word != "-I":
                    options.append(f"-I{self._inside(word[2:], f'folder {word[2:]}')}")
                else:
                    options.append(word)
            need(not options or options[-1] != "-I", "-I has no folder after it", FileError)
            return options

    def _formulas(self, sizes: Element | None, name: str, limit: int) -> tuple[Formula, ...]:
        if sizes is None:
            return ()
        with self._at(sizes), at(f"'{name}' of <WorkSizes>"):
            return parse_formulas(sizes.attributes.get(name, ""), limit)

    def _dim(self, sizes: Element | None) -> int | None:
        """Return the index of the input whose sizes the formulas use, or None for output 0."""
        text = sizes.attributes.get("dim", "output") if sizes is not None else "output"
        match = _DIM.fullmatch(text)
        if sizes is not None:
            with self._at(sizes):
                need(match, f"dim '{text}' is unknown, expected output, input or input,N", FileError)
        return int(match[1] or 0) if match and text != "output" else None
