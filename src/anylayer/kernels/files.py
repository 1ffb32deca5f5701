"""Check whether a file can be a shared library for this machine, before the system's loader opens it."""

from __future__ import annotations

import struct
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from anylayer.errors import FileError, InputError, reading, wording

SUFFIXES = (".so", ".dylib", ".dll")
_ELF = b"\x7fELF"
_FORMATS = {
    _ELF: ("an ELF", "Linux"),
    **dict.fromkeys((b"\xcf\xfa\xed\xfe", b"\xfe\xed\xfa\xcf", b"\xca\xfe\xba\xbe"), ("a Mach-O", "macOS")),
    b"MZ": ("a PE", "Windows"),
}
"""The first bytes of a library: its format, and the system that it is for."""
_SYSTEMS = {"linux": "Linux", "darwin": "macOS", "win32": "Windows"}
_MACHINES = {
    0x03: "x86", 0x08: "MIPS", 0x14: "PowerPC", 0x15: "64-bit PowerPC", 0x16: "IBM Z", 0x28: "32-bit ARM",
    0x3E: "x86-64", 0xB7: "64-bit ARM", 0xF3: "RISC-V", 0x102: "LoongArch",
}  # fmt: skip
"""ELF's e_machine, where it is met in practice."""
_SHARED = 3
_HEADER = 64


def is_library(source: object) -> bool:
    """Return whether a source of layers is named like a shared library: libx.so, libx.so.1, x.dylib, x.dll."""
    name = Path(str(source)).name
    return name.endswith(SUFFIXES) or ".so." in name


def is_configuration(source: object) -> bool:
    """Return whether a file is named like a configuration of OpenCL kernels, not of Model Optimizer."""
    name = Path(str(source)).name.lower()
    return name.endswith(".xml") and name != "customlayersmapping.xml"


def split(sources: Any) -> tuple[list[Any] | Mapping[str, Any], list[str]]:
    """Return the sources of layers that are not libraries, and the libraries ("lib.so" or "Type=lib.so")."""
    if isinstance(sources, Mapping):
        return sources, []
    listed: Iterable[Any] = [sources] if isinstance(sources, (str, Path)) else sources or ()
    others: list[Any] = []
    libraries: list[str] = []
    for source in listed:
        text = str(source) if isinstance(source, (str, Path)) else ""
        path, _, name = text.rpartition(":")
        if path and name.isidentifier() and is_library(path):
            raise InputError(f"'{text}': a library has layer types, not classes. Write {path}")
        if text and is_configuration(text):
            option = wording(f"kernels={text!r}", f"-c {text}")
            raise InputError(f"'{text}' is a configuration of OpenCL kernels, which is given as {option}")
        (libraries if text and is_library(text) else others).append(source)
    return others, [str(path) for path in libraries]


def need_library(path: Path) -> None:
    """Raise FileError unless a file is a shared library that this machine can load."""
    with reading(str(path)):
        need_there(path)
        size = path.stat().st_size
        with path.open("rb") as file:
            head = file.read(_HEADER)
            _need_same_system(head, path)
            if head[:4] != _ELF:
                return
            _need(len(head) == _HEADER, path, f"ends in its header, after {size} bytes")
            _need_same_machine(head, path)
            _need_whole(head, file.read(1 << 16), size, path)


def need_there(path: Path) -> None:
    """Raise FileError if a file does not exist."""
    _need(path.is_file(), path, "there is no such library")


def _need(condition: bool, path: Path, rule: str) -> None:
    if not condition:
        raise FileError(rule, str(path))


def _need_same_system(head: bytes, path: Path) -> None:
    """Raise FileError if the file's format is not that of the system's libraries."""
    system = _SYSTEMS.get(sys.platform)
    if system is None:
        return
    expected = next(name for name, its in _FORMATS.values() if its == system)
    detected = next((kind for start, kind in _FORMATS.items() if head.startswith(start)), None)
    if detected is None:
        raise FileError(f"is not {expected} file, so it is not a shared library of {system}", str(path))
    rule = f"is {detected[0]} file, a library of {detected[1]}, and this machine runs {system}"
    _need(detected[1] == system, path, f"{rule}. Build it for this machine")


def _need_same_machine(head: bytes, path: Path) -> None:
    """Raise FileError if the file's architecture is not that of the running Python."""
    interpreter = Path(sys.executable).resolve().read_bytes()[:_HEADER]
    there, here = _architecture(head), _architecture(interpreter) if interpreter[:4] == _ELF else ""
    _need(
        not here or there == here, path, f"is built for {there}, this Python for {here}. Build it for this machine"
    )
    kind = struct.unpack_from(("<" if head[5] == 1 else ">") + "H", head, 16)[0]
    _need(kind == _SHARED, path, "is an ELF file, but not a shared library. Link it with -shared")


def _architecture(head: bytes) -> str:
    """Return the name of the processor that an ELF file is built for, with its word size and byte order."""
    order = "<" if head[5] == 1 else ">"
    machine = struct.unpack_from(order + "H", head, 18)[0]
    name = _MACHINES.get(machine, f"processor type {machine}")
    bits = {1: " (32-bit)", 2: ""}.get(head[4], " (unknown word size)")
    return name + bits + ("" if order == "<" else " (big-endian)")


def _need_whole(head: bytes, rest: bytes, size: int, path: Path) -> None:
    """Raise FileError for a file that is shorter than its segments: reading such a mapping would crash."""
    if head[4] != 2 or head[5] != 1:
        return
    start, count = struct.unpack_from("<Q", head, 32)[0], struct.unpack_from("<H", head, 56)[0]
    text = head + rest
    _need(start + 56 * count <= min(size, len(text)), path, "is cut off: its list of segments is not there")
    for i in range(count):
        offset, length = (struct.unpack_from("<Q", text, start + 56 * i + at)[0] for at in (8, 32))
        _need(
            offset + length <= size, path, f"is cut off: it has {size} bytes, a segment ends at {offset + length}"
        )
