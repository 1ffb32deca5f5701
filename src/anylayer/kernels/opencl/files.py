"""Which configurations of OpenCL kernels are used, on which device they run, and where programs are dumped."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from anylayer.errors import EngineError, writing
from anylayer.libraries.whole import write_whole

if TYPE_CHECKING:
    from anylayer.libraries.pyopencl import Device

PathLike = str | Path
_USER_FILE = Path("cldnn_global_custom_kernels") / "cldnn_global_custom_kernels.xml"


@dataclass(frozen=True, slots=True)
class OpenCL:
    """OpenCL kernels of layers, as `anylayer.read(kernels=...)` takes them.

    files: configuration files (.xml), or "Type=file.xml" for one layer type of a file. device: a kind (CPU, GPU,
    ACCELERATOR), or part of the name of a device or platform; "" stands for the first GPU, else the first device.
    dump: a folder for the programs that are compiled (clDNN_program0.cl, ...). folders: folders outside of a
    configuration's own in which its sources may be. user_file: whether the user's own configuration is used, too.
    """

    files: Sequence[PathLike] = ()
    device: str = ""
    dump: PathLike | None = None
    folders: Sequence[PathLike] = ()
    user_file: bool = True


def opencl_of(kernels: PathLike | Iterable[PathLike] | OpenCL | None) -> OpenCL:
    """Convert the argument `kernels` of `anylayer.read` to an OpenCL."""
    if isinstance(kernels, OpenCL):
        return kernels
    return OpenCL([kernels] if isinstance(kernels, (str, Path)) else [*(kernels or ())])


def user_file() -> Path | None:
    """Return the user's own configuration file, or None if it does not exist."""
    if sys.platform == "win32":
        base = os.environ.get("APPDATA", "")
    else:
        base = os.environ.get("XDG_CONFIG_HOME", "")
    try:
        folder = Path(base) if base else Path.home() / ".config"
        path = folder / "anylayer" / _USER_FILE
        return path if path.is_file() else None
    except (OSError, RuntimeError):  # there is no home, or it cannot be read
        return None


class Dump:
    """A folder to which each distinct program is written once."""

    def __init__(self, folder: PathLike) -> None:
        self._folder = Path(folder)
        self._known: set[str] = set()
        self._lock = threading.Lock()

    def write(self, text: str, key: str) -> None:
        """Write a program, unless one with this key was written before."""
        with self._lock, writing(str(self._folder)):
            if key in self._known:
                return
            path = self._folder / f"clDNN_program{len(self._known)}.cl"
            write_whole(path, lambda file: file.write(text.encode()))
            self._known.add(key)


class KernelSettings:
    """The settings that a network's kernels share: the user's options, the device, the folder of dumps."""

    def __init__(self, asked: OpenCL) -> None:
        self.asked = asked
        self.dump = None if asked.dump is None else Dump(asked.dump)
        self._found: Device | None = None

    def find_device(self) -> Device:
        """Return the device. Raises EngineError where there is none, or pyopencl is not installed."""
        if self._found is None:
            try:
                from anylayer.libraries.pyopencl import device
            except ModuleNotFoundError as error:
                if error.name != "pyopencl":
                    raise
                raise EngineError("OpenCL kernels need pyopencl: pip install pyopencl") from None
            self._found = device(self.asked.device)
        return self._found
