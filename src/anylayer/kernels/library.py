"""Load a shared library of layers. Its code runs from then on, so only a library that the user names is loaded."""

from __future__ import annotations

import atexit
import ctypes
import shutil
import sys
import tempfile
import threading
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

from anylayer.errors import FileError
from anylayer.kernels import abi
from anylayer.kernels.files import need_library
from anylayer.layer import Definition
from anylayer.libraries.stdout import drops_output
from anylayer.network import Network

_MAX_TYPES = 10_000
"""The largest number of layer types of a library."""


@dataclass(slots=True, eq=False)
class Library:
    """A loaded library: its own version and description, and its layer types by name.

    `path` is the file as the user named it, `file` the one that is loaded. A thread holds the lock `turn` while it
    is in a function of the library that is not reentrant, unless the library `takes_turns`, that is, locks by
    itself; it then also has a custom operator for ONNX Runtime. `keep` holds the objects that the library has
    pointers to.
    """

    path: str
    file: Path
    version: str
    description: str
    takes_turns: bool
    types: dict[str, Any] = field(default_factory=dict)
    turn: Any = field(default_factory=threading.RLock)
    keep: list[Any] = field(default_factory=list)

    @property
    def name(self) -> str:
        return Path(self.path).name


class LibraryType:
    """A layer type of a library, which states the shapes of outputs itself."""

    constants_are_blobs = True
    states_shapes = True

    def within(self, network: Network, shapes: Definition | None = None) -> Self:
        """Return this type."""
        return self


_loaded: dict[tuple[int, ...], Library] = {}
_places: set[Path] = set()
"""The files that have been loaded, as they were then."""
_lock = threading.Lock()


def load_library(path: str) -> Library:
    """Load a library. It is loaded again only if the file has changed.

    Raises FileError where the file is not a library of layers.
    """
    file = Path(path)
    need_library(file)
    status = file.stat()
    key = (status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns)
    with _lock:
        if key not in _loaded:
            _loaded[key] = _load(str(path), file.resolve())
        return _loaded[key]


def _load(path: str, place: Path) -> Library:
    handle, opened = _open_library(path, place)
    try:
        entry = getattr(handle, abi.ENTRY)
    except AttributeError:
        raise FileError(
            f"is a shared library without {abi.ENTRY}, so it holds no layers of anylayer. Include "
            "anylayer/layer.hpp and register a layer with ANYLAYER_REGISTER_LAYER",
            path,
        ) from None
    entry.restype, entry.argtypes = ctypes.c_void_p, [ctypes.c_uint32, ctypes.c_void_p]
    messages = abi.Messages()
    at = entry(abi.VERSION, messages.at)
    if not at:
        text = messages.take() or f"{abi.ENTRY} gives no table and no message"
        raise FileError(text, path)
    _need_version(at, path)
    table = abi.CLibrary.from_address(at)
    takes_turns = bool(table.flags & abi.TAKES_TURNS)
    version, description = _text(table.version), _text(table.description)
    library = Library(path, opened, version, description, takes_turns, keep=[handle, entry])
    _take_types(library, table, path)
    _connect(library, table)
    return library


def _open_library(path: str, place: Path) -> tuple[ctypes.CDLL, Path]:
    """Open a library. Return it and the opened file. A library that was rebuilt after it was loaded is opened as a
    copy, because the system's loader identifies libraries by their path and would return the previous one. The
    copy exists until the process ends.
    """
    again = place in _places
    _places.add(place)
    try:
        if again:
            folder = Path(tempfile.mkdtemp(prefix="anylayer-"))
            atexit.register(shutil.rmtree, folder, ignore_errors=True)
            place = Path(shutil.copy(place, folder / place.name))
        return ctypes.CDLL(str(place)), place
    except OSError as error:
        reason = str(error).removeprefix(f"{place}: ")
        raise FileError(f"cannot be loaded: {reason}", path) from error


def _need_version(at: int, path: str) -> None:
    """Raise FileError unless a library's table has this version of the binary interface. Only its first two fields
    are the same in all versions.
    """
    size, version = (ctypes.c_uint32 * 2).from_address(at)
    if version != abi.VERSION:
        raise FileError(
            f"is built for version {version} of anylayer's binary interface, this anylayer has version "
            f"{abi.VERSION}. Build it again with this anylayer's headers: anylayer build",
            path,
        )
    if size < ctypes.sizeof(abi.CLibrary):
        raise FileError(f"its table has {size} bytes, version {version} needs {ctypes.sizeof(abi.CLibrary)}", path)


def _take_types(library: Library, table: Any, path: str) -> None:
    count = table.type_count
    if not 0 < count <= _MAX_TYPES or not table.types:
        raise FileError(f"registers {count} layer types, expected 1 to {_MAX_TYPES}", path)
    for at in (ctypes.c_void_p * count).from_address(table.types):
        size = ctypes.c_uint32.from_address(at).value if at else 0
        if size < ctypes.sizeof(abi.Type):
            raise FileError(f"a layer type's table has {size} bytes, expected {ctypes.sizeof(abi.Type)}", path)
        type_table = abi.Type.from_address(at)
        name = _text(type_table.name)
        if not name:
            raise FileError("registers a layer type without a name", path)
        if name in library.types:
            raise FileError(f"registers layer type '{name}' twice", path)
        for function in ("create", "destroy", "shapes", "forward"):
            if not getattr(type_table, function):
                raise FileError(f"layer type '{name}' has no function '{function}'", path)
        library.types[name] = type_table


def _connect(library: Library, table: Any) -> None:
    """Set the library's log function, and unload the library when the process ends."""
    if table.set_log:

        def write(text: bytes) -> None:
            if not drops_output():
                sys.stderr.write(f"{library.name}: {(text or b'').decode('utf-8', 'replace')}\n")

        callback = abi.LOG(write)
        library.keep.append(callback)
        table.set_log(ctypes.cast(callback, ctypes.c_void_p))
        atexit.register(table.set_log, None)
    if table.unload:
        atexit.register(table.unload)


def _text(value: bytes | None) -> str:
    return (value or b"").decode("utf-8", "replace")
