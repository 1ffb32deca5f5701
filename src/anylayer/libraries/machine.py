"""This machine: its processors, and the user's cache folder on it."""

from __future__ import annotations

import os
import platform
import stat
import sys
from contextlib import suppress
from functools import lru_cache
from pathlib import Path


def cache_folder(part: str) -> Path | None:
    """Return a part of the user's cache folder, and create it if it does not exist.

    The folder is $XDG_CACHE_HOME/anylayer, or ~/.cache/anylayer. What it holds can be made again. None where
    others could write to it, where it cannot be created, and on Windows, where owners are not examined.
    """
    if sys.platform == "win32":
        return None
    base = Path(os.environ.get("XDG_CACHE_HOME", ""))
    try:
        parent = (base if base.is_absolute() else Path.home() / ".cache") / "anylayer"
        parent.parent.mkdir(parents=True, exist_ok=True)
        for path in (parent, parent / part):
            path.mkdir(mode=0o700, exist_ok=True)
            if not _is_private(path.lstat(), 0o022 if path == parent else 0o077):
                return None
    except (OSError, RuntimeError):  # Path.home() raises RuntimeError where there is none
        return None
    return path if os.access(path, os.W_OK) else None


def _is_private(state: os.stat_result, closed: int) -> bool:
    """Return whether a folder is the user's own, and the permissions `closed` are not given."""
    return stat.S_ISDIR(state.st_mode) and state.st_uid == os.geteuid() and not state.st_mode & closed


def own_content(path: Path) -> bytes | None:
    """Return a file's bytes, or None for a file that another user could have written. Raises OSError."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW)
    with os.fdopen(descriptor, "rb") as file:
        state = os.fstat(descriptor)
        if not stat.S_ISREG(state.st_mode) or state.st_uid != os.geteuid() or state.st_mode & 0o022:
            return None
        return file.read()


def cached_files(part: str, suffix: str) -> list[Path]:
    """Return the files of a part of the cache folder, the last used first."""
    folder = cache_folder(part)
    ages = []
    for path in folder.glob(f"*{suffix}") if folder is not None else ():
        with suppress(FileNotFoundError):  # another process deletes, too
            ages.append((path.stat().st_mtime, path))
    return [path for _, path in sorted(ages, reverse=True)]


def delete_oldest(part: str, suffix: str, limit: int) -> None:
    """Delete the files of a part of the cache folder that were used longest ago if there are more than `limit`."""
    for path in cached_files(part, suffix)[limit:]:
        path.unlink(missing_ok=True)


@lru_cache
def processor() -> str:
    """Return a text that identifies the instruction set of this processor."""
    try:
        lines = Path("/proc/cpuinfo").read_text("utf-8", "replace").splitlines()
    except OSError:
        lines = []
    flags = dict.fromkeys(line for line in lines if line.startswith(("flags", "Features", "model name")))
    return "\n".join([platform.machine(), platform.processor(), *flags])


def processor_count() -> int:
    """Return the number of processors that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def busy_seconds() -> float | None:
    """Return the time for which this machine's processors have been busy; None where the system does not say."""
    try:
        ticks = [int(word) for word in Path("/proc/stat").read_text("ascii").split()[1:9]]
    except (OSError, ValueError):
        return None
    return (sum(ticks) - ticks[3] - ticks[4]) / os.sysconf("SC_CLK_TCK")  # without idle and iowait
