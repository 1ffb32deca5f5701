"""Writers: one format per file or folder. `Net.write` and `anylayer convert` find them by listing this folder.

A writer of files is a module `anylayer.writers.<format>` that meets the protocol `Writer`. A module without WHAT
(ncnn's) serves an engine only. Names that begin with "_" are shared code.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any, Protocol, cast

from anylayer.errors import InputError, nearest, need, wording
from anylayer.folders import load, modules
from anylayer.source import Source, Written


class Writer(Protocol):
    """A module that writes one format.

    WHAT: what it writes, in words with an article: "an ONNX model (.onnx)".
    SUFFIXES: the suffixes that mean this format, the usual one first: (".onnx",).
    OPTIONS: the names of the options that `write` accepts: its own, and of the common ones "functions", "keep",
    "batch" and "dialect". Net.write refuses other options by name.
    RUNS: what runs its files, to compare them with the source: the name of an engine whose module has `open_file`
    ("onnxruntime", "openvino"), or "numpy": anylayer.read reads the file, and its layers run in NumPy.

    A writer of folders defines FOLDER = True: its `write` makes the folder `path`. One without SUFFIXES must be
    named by the caller. A writer may define LAYOUT = "NCHW" if the target passes arrays of rank 4 to a user's
    layer in this order only, and QUANTIZED = True if the format holds quantized constants: `source.graph` then has
    the operators that compute real numbers from them.
    """

    WHAT: str
    SUFFIXES: Sequence[str]
    OPTIONS: Collection[str]
    RUNS: str

    def write(self, source: Source, path: Path, **options: Any) -> Written:
        """Write the file `path`, and the files that belong to it into the same folder.

        The folder is empty and temporary: Net.write compares the files with the source there, and then moves all
        of them, or none, to their destination. So files refer to each other by relative names. `options` are those
        that the caller gave; "functions", "keep" and "batch" are already applied to `source.graph`.

        Raises LayerError, which names the node and the simplest remedy, for what the target cannot express.
        """


def writers() -> dict[str, Writer]:
    """Return the writers of files by format, as far as the packages that they need are installed."""
    result = {}
    for name in modules("writers"):
        try:
            module = load("writers", name)
        except ModuleNotFoundError as error:
            _require_foreign(error)
            continue
        if hasattr(module, "WHAT"):
            result[name] = cast(Writer, module)
    return result


def load_writer(name: str) -> Writer:
    """Return a format's writer. Raises InputError if there is none, or if a package that it needs is missing."""
    if name in modules("writers"):
        try:
            module = load("writers", name)
        except ModuleNotFoundError as error:
            _require_foreign(error)
            raise InputError(f"to write '{name}': pip install {error.name}") from None
        if hasattr(module, "WHAT"):
            return cast(Writer, module)
    names = writers()
    raise InputError(f"there is no writer for format '{name}'{nearest(name, names)}; formats: {', '.join(names)}")


def _require_foreign(error: ModuleNotFoundError) -> None:
    """Raise the error again where the missing module is one of this package."""
    if error.name is None or error.name.split(".")[0] == "anylayer":
        raise error


def format_of(path: Path) -> str:
    """Return the format that a file's suffix means. Raises InputError where it means none."""
    format_by_suffix = {suffix: name for name, module in writers().items() for suffix in module.SUFFIXES}
    listed = ", ".join(f"{suffix} ({name})" for suffix, name in format_by_suffix.items())
    rule = f"{path}: its suffix means no format; it must be one of {listed}"
    remedy = wording("format='onnx'", "--to FORMAT")
    need(path.suffix.lower() in format_by_suffix, f"{rule}, or give {remedy}", InputError)
    return format_by_suffix[path.suffix.lower()]
