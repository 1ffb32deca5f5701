"""Build a library of layers with the system's C++ compiler."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from anylayer.errors import FileError, InputError, need, wording, writing
from anylayer.libraries.whole import whole_path

COMPILERS = ("c++", "g++", "clang++")
"""The compilers that are looked for, in this order, where $CXX is not set."""
_MAX_LINES = 12
"""The number of lines of a compiler's output that a message shows."""


def sdk() -> Path:
    """Return the folder of the SDK: its headers are in `include`, its CMake package in `share/cmake`."""
    return Path(__file__).parent.parent / "sdk"


def compiler(named: str | None = None) -> list[str]:
    """Return the command of the C++ compiler as a list of arguments: `named`, else $CXX, else the first of
    COMPILERS that exists. Raises InputError if there is none.
    """
    asked = named or os.environ.get("CXX")
    words = shlex.split(asked) if asked else []
    if words:
        need(shutil.which(words[0]), f"there is no C++ compiler '{words[0]}'", InputError)
        return words
    default = next((name for name in COMPILERS if shutil.which(name)), None)
    need(
        default,
        f"there is no C++ compiler ({', '.join(COMPILERS)}). On Debian: apt-get install g++. Choose another one "
        "with " + wording("compiler='...'", "--compiler") + " or the environment variable CXX",
        InputError,
    )
    return [default or ""]


@dataclass(frozen=True, slots=True)
class Build:
    """The settings with which a library is built. `tuned` enables all instructions of this machine's processor;
    the library then runs only on such processors. `flags` are further arguments of the compiler.
    """

    sources: Sequence[Path]
    out: Path
    compiler: Sequence[str]
    tuned: bool = False
    flags: Sequence[str] = ()

    def command(self, out: Path | None = None) -> list[str]:
        """Return the command that writes the library to `out`, else to its own place."""
        link = ["-shared", "-fPIC", "-fvisibility=hidden", "-pthread"]
        if sys.platform.startswith("linux"):
            link.append("-Wl,-z,nodelete")
        tune = ["-march=native"] if self.tuned else []
        files = [*map(str, self.sources), "-o", str(out or self.out)]
        return [*self.compiler, "-std=c++17", "-O3", *tune, *link, f"-I{sdk() / 'include'}", *files, *self.flags]

    def run(self) -> None:
        """Build the library. Raise FileError with the compiler's first error if it does not compile. The complete
        library is moved into place, so that processes which have loaded the previous file keep using it.
        """
        for source in self.sources:
            need(source.is_file(), f"{source}: there is no such file", FileError)
        with writing(str(self.out)), whole_path(self.out) as library:
            run = subprocess.run(self.command(library), stdin=subprocess.DEVNULL, capture_output=True, text=True)
            text = (run.stdout + run.stderr).replace(str(library), str(self.out)).strip()
            if run.returncode or not library.is_file():
                says = (
                    f":\n{_excerpt(text)}" if text else f", {self.compiler[0]} ends with status {run.returncode}"
                )
                raise FileError(f"does not compile{says}", ", ".join(map(str, self.sources)))
        if text:
            sys.stderr.write(f"{text}\n")


def _excerpt(text: str) -> str:
    """Return the lines of a compiler's output from the first error on. If they are more than a message shows, the
    whole output is written to a file, which the last line names.
    """
    lines = text.splitlines()
    if len(lines) <= _MAX_LINES:
        return text
    first = next((i for i, line in enumerate(lines) if "error: " in line), 0)
    with tempfile.NamedTemporaryFile(
        "w", encoding="utf-8", prefix="compiler-", suffix=".log", delete=False
    ) as log:
        log.write(f"{text}\n")
    shown = lines[first : first + _MAX_LINES]
    return "\n".join([*shown, f"The compiler's whole output ({len(lines)} lines) is in {log.name}"])
