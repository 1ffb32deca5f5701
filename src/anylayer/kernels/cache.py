"""A cache of libraries that are built from generated C++, in the user's cache folder.

The folder is $XDG_CACHE_HOME/anylayer/cpp, or ~/.cache/anylayer/cpp. It and its parent must belong to the user,
and others must not be able to write to them; otherwise each library is built in a temporary folder and not kept.
A file is called KEY-HASH.so: KEY is the hash of everything that the library depends on, HASH that of its own
bytes. A file is loaded only if it belongs to the user, others cannot write to it, and its bytes have the hash of
its name.
"""

from __future__ import annotations

import ctypes
import hashlib
import os
import platform
import stat
import subprocess
import threading
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from tempfile import TemporaryDirectory

from anylayer.kernels.compiler import Build

_MAX_KEPT = 200
"""The number of libraries that the folder keeps; those that were used longest ago are deleted."""

_loaded: dict[str, ctypes.CDLL] = {}
_lock = threading.Lock()


def library(source: str, compiler: Sequence[str], flags: Sequence[str] = ()) -> ctypes.CDLL:
    """Return the library of a C++ source text for this processor. Build it if the cache folder does not have it.

    compiler: the command of the compiler, as a list of arguments. flags: further arguments. Raises FileError, with
    the compiler's message, if the source does not compile.
    """
    key = _key(source, compiler, flags)
    with _lock:
        if key not in _loaded:
            _loaded[key] = _found(key) or _built(key, source, compiler, flags)
        return _loaded[key]


def _key(source: str, compiler: Sequence[str], flags: Sequence[str]) -> str:
    parts = [source, *compiler, *flags, _version(tuple(compiler)), _processor()]
    return hashlib.sha256("\0".join(parts).encode("utf-8", "surrogatepass")).hexdigest()


@lru_cache
def _version(compiler: tuple[str, ...]) -> str:
    """Return a compiler's description of its version."""
    done = subprocess.run([*compiler, "--version"], stdin=subprocess.DEVNULL, capture_output=True, text=True)
    return done.stdout


@lru_cache
def _processor() -> str:
    """Return a text that identifies the instruction set of this processor."""
    try:
        lines = Path("/proc/cpuinfo").read_text("utf-8", "replace").splitlines()
    except OSError:
        lines = []
    known = dict.fromkeys(line for line in lines if line.startswith(("flags", "Features", "model name")))
    return "\n".join([platform.machine(), platform.processor(), *known])


def folder() -> Path | None:
    """Return the cache folder, and create it if it does not exist. None where others could write to it, or where
    it cannot be created."""
    base = Path(os.environ.get("XDG_CACHE_HOME", ""))
    try:
        parent = (base if base.is_absolute() else Path.home() / ".cache") / "anylayer"
        parent.parent.mkdir(parents=True, exist_ok=True)
        for path in (parent, parent / "cpp"):
            path.mkdir(mode=0o700, exist_ok=True)
            if not _is_private(path.lstat(), 0o022 if path == parent else 0o077):
                return None
    except (OSError, RuntimeError):  # Path.home() raises RuntimeError where there is none
        return None
    return path if os.access(path, os.W_OK) else None


def _is_private(state: os.stat_result, closed: int) -> bool:
    """Return whether a folder is the user's own, and the permissions `closed` are not given."""
    return stat.S_ISDIR(state.st_mode) and state.st_uid == os.geteuid() and not state.st_mode & closed


def _found(key: str) -> ctypes.CDLL | None:
    """Return a library of the cache folder, or None. A file whose content does not match the hash in its name is
    deleted.
    """
    place = folder()
    for path in sorted(place.glob(f"{key}-*.so")) if place is not None else ():
        try:
            if path.name == f"{key}-{_content_hash(path)}.so":
                found = ctypes.CDLL(str(path))
                os.utime(path)
                return found
            path.unlink()
        except OSError:
            continue
    return None


def _content_hash(path: Path) -> str:
    """Return the hash of a file's bytes, or "" for a file that another user could have written."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW)
    with os.fdopen(descriptor, "rb") as file:
        state = os.fstat(descriptor)
        if not stat.S_ISREG(state.st_mode) or state.st_uid != os.geteuid() or state.st_mode & 0o022:
            return ""
        return hashlib.sha256(file.read()).hexdigest()


def _built(key: str, source: str, compiler: Sequence[str], flags: Sequence[str]) -> ctypes.CDLL:
    """Build a library in a temporary folder, move it to the cache folder if there is one, and load it."""
    place = folder()
    with TemporaryDirectory(prefix=".build-", dir=place) as temporary:
        text, made = Path(temporary) / "source.cpp", Path(temporary) / "library.so"
        text.write_text(source, "utf-8")
        Build([text], made, compiler, tuned=True, flags=flags).run()
        made.chmod(0o700)
        if place is None:
            return ctypes.CDLL(str(made))
        kept = place / f"{key}-{_content_hash(made)}.so"
        made.replace(kept)
    _delete_oldest(place)
    return ctypes.CDLL(str(kept))


def _delete_oldest(place: Path) -> None:
    """Delete the oldest libraries if there are more than the limit."""
    ages = []
    for path in place.glob("*.so"):
        try:
            ages.append((path.stat().st_mtime, path))
        except FileNotFoundError:  # another process deletes, too
            continue
    for _, path in sorted(ages, reverse=True)[_MAX_KEPT:]:
        path.unlink(missing_ok=True)
