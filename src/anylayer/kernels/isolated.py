"""A library of layers in a child process: a crash of its code becomes an error of the layer."""

from __future__ import annotations

import contextlib
import itertools
import os
import pickle
import signal
import subprocess
import sys
import threading
import weakref
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from anylayer import errors
from anylayer.errors import AnyLayerError, FileError, LayerError, wording
from anylayer.kernels.answers import MalformedAnswer, is_texts, read_answer, read_arrays, types_of
from anylayer.kernels.call import CompiledKernel
from anylayer.kernels.files import need_library
from anylayer.kernels.library import LibraryType
from anylayer.libraries.stdout import drops_output
from anylayer.network import Array, DType, Node, TensorType

MAX_SECONDS = 60.0
"""The seconds after which a call of an isolated library is stopped, where no other limit is given."""
_COMMAND = (sys.executable, "-P", "-m", "anylayer.kernels.child")
"""The command of the child process. Without -P, Python would import modules from the current folder first."""


class IsolatedLibrary:
    """A library that a child process has loaded. Requests are made one at a time.

    The process is stopped where a request takes longer than `limit` seconds. To start and to load the library, it
    has at least MAX_SECONDS.
    """

    def __init__(self, path: str, limit: float = MAX_SECONDS) -> None:
        self.path, self.name, self._limit = path, Path(path).name, limit
        need_library(Path(path))
        self._turn = threading.Lock()
        self._ended = ""
        self._numbers = itertools.count()
        self._process = subprocess.Popen(
            _COMMAND, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=_environment()
        )
        weakref.finalize(self, _stop, self._process)
        try:
            self.version, self.description, self.types = self._load(str(Path(path).resolve()))
        except LayerError as error:
            raise FileError(error.message.removeprefix(f"{self.name}: "), path) from error

    def number(self) -> int:
        """Return a number for an instance."""
        return next(self._numbers)

    def _load(self, path: str) -> tuple[str, str, dict[str, str]]:
        answer = self.ask("load", path)
        with self._reading("load"):
            match answer:
                case [str(version), str(description), dict(types)] if is_texts([*types.values()]):
                    return version, description, types
            raise MalformedAnswer

    def bind(self, *arguments: Any) -> tuple[list[TensorType], list[TensorType], str, list[str]]:
        """Create an instance. Return the types of its outputs and internal arrays, its configuration and notes."""
        answer = self.ask("bind", *arguments)
        with self._reading("bind"):
            match answer:
                case [outputs, internals, str(configuration), list(notes)] if is_texts(notes):
                    return types_of(outputs), types_of(internals), configuration, notes
            raise MalformedAnswer

    def ask(self, request: str, *arguments: Any, outputs: Sequence[TensorType] | None = None) -> Any:
        """Return the child's answer; with `outputs` it is arrays of these types. Raise the error that it reports,
        or LayerError if it has ended or if its answer is malformed.
        """
        with self._turn, self._with_time_limit(request), self._reading(request):
            stdin, stdout = self._process.stdin, self._process.stdout
            if self._ended or stdin is None or stdout is None:
                raise EOFError
            pickle.dump((request, arguments), stdin, pickle.HIGHEST_PROTOCOL)
            stdin.flush()
            match read_answer(stdout):
                case {"result": result}:
                    if outputs is None:
                        return result
                    if types_of(result) == list(outputs):
                        return read_arrays(stdout, outputs)
                    raise MalformedAnswer
                case {"error": [str(kind), str(message)]} if kind in _ERRORS:
                    error = _ERRORS[kind](message)
                case _:
                    raise MalformedAnswer
        raise error

    @contextlib.contextmanager
    def _reading(self, request: str) -> Iterator[None]:
        """Raise LayerError where the child process has ended, or where its answer is malformed. Then end it."""
        try:
            yield
        except MalformedAnswer:
            self._process.kill()
            self._ended = (
                f"its process was stopped, because its answer {_doing(request)} is malformed: the library has "
                "written to a file or to memory that is not its own"
            )
        except (EOFError, OSError):
            self._ended = self._ended or self._end(request)
        else:
            return
        raise LayerError(f"{self.name}: {self._ended}")

    @contextlib.contextmanager
    def _with_time_limit(self, request: str) -> Iterator[None]:
        """Stop the child process if the context takes longer than the time limit."""
        limit = max(self._limit, MAX_SECONDS) if request == "load" else self._limit

        def stop() -> None:
            remedy = wording("isolate=SECONDS", "--isolate-limit SECONDS")
            self._ended = (
                f"its process was stopped, because it took more than {limit:g} s {_doing(request)}. "
                f"If it needs more time, give {remedy}"
            )
            self._process.kill()

        timer = threading.Timer(limit, stop)
        timer.daemon = True
        timer.start()
        try:
            yield
        finally:
            timer.cancel()
            timer.join()

    def _end(self, request: str) -> str:
        """Return how the child process has ended."""
        status = self._process.wait()
        doing = _doing(request)
        if status >= 0:
            return f"its process ended with status {status} {doing}"
        with contextlib.suppress(ValueError):
            return f"its process crashed with {signal.Signals(-status).name} {doing}"
        return f"its process ended with signal {-status} {doing}"


_ERRORS: dict[str, type[AnyLayerError]] = {
    name: kind for name, kind in vars(errors).items() if isinstance(kind, type) and issubclass(kind, AnyLayerError)
}
"""The classes of errors that the child process may report."""


def _doing(request: str) -> str:
    """Return a description of a request for an error message."""
    return {"load": "while it was loaded", "run": "in forward"}.get(request, "while a layer was prepared")


def _environment() -> dict[str, str]:
    """Return the environment in which a child process finds this package. An empty path is the current folder."""
    root = str(Path(__file__).parent.parent.parent)
    paths = [root, *filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}


def _stop(process: subprocess.Popen[bytes]) -> None:
    """End a child process: without requests it ends by itself."""
    with contextlib.suppress(OSError):
        if process.stdin is not None:
            process.stdin.close()
    try:
        process.wait(5)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    if process.stdout is not None:
        process.stdout.close()


class IsolatedType(LibraryType):
    """A layer type of an isolated library. Calling it makes an IsolatedNode."""

    def __init__(self, library: IsolatedLibrary, name: str) -> None:
        self.library, self.type, self.origin = library, name, library.path
        self.__doc__ = library.types[name]

    def __call__(
        self,
        node: Node,
        types: Sequence[TensorType],
        dtype: DType | None = None,
        outputs: Sequence[TensorType] | None = None,
    ) -> IsolatedNode:
        """Make an instance in the child process. Raises LayerError."""
        return IsolatedNode(self, node, types, dtype)


class IsolatedNode(CompiledKernel):
    """An instance of a layer type in the child process; the attributes are those of NativeLayer."""

    def __init__(self, kernel: IsolatedType, node: Node, types: Sequence[TensorType], dtype: DType | None) -> None:
        self._library, self.name, self.node = kernel.library, kernel.library.name, node
        self._number = kernel.library.number()
        plain = replace(node, lines={})
        answer = self._library.bind(self._number, kernel.type, plain, tuple(types), dtype)
        self.outputs, self.internals, configuration, self.notes = answer
        self.configuration = f"{configuration}, isolated"
        weakref.finalize(self, _drop, self._library, self._number)

    def program(self, threads: int | None = None) -> IsolatedProgram:
        """Return a function that computes the layer in the child process."""
        return IsolatedProgram(self, threads)

    def run(self, threads: int | None, inputs: Sequence[Array | None]) -> list[Array]:
        """Compute the outputs in the child process."""
        try:
            arguments = self._number, threads, list(inputs), drops_output()
            results: list[Array] = self._library.ask("run", *arguments, outputs=self.outputs)
        except AnyLayerError as error:
            if not error.places:
                error.places.append(self.node.place)
            raise
        return results


class IsolatedProgram:
    """An isolated layer as a step of a plan."""

    def __init__(self, layer: IsolatedNode, threads: int | None) -> None:
        self._layer, self._threads = layer, threads

    def __call__(self, inputs: Sequence[Any], out: Sequence[Array | None] | None = None) -> list[Array]:
        """Return one array per output. An array in `out` is written to and returned for its output."""
        results = self._layer.run(self._threads, inputs)
        for i, buffer in enumerate(out or ()):
            if buffer is not None:
                np.copyto(buffer, results[i])
                results[i] = buffer
        return results


def _drop(library: IsolatedLibrary, number: int) -> None:
    with contextlib.suppress(AnyLayerError):
        library.ask("drop", number)
