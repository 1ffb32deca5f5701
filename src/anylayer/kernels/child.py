"""The child process of `isolate`: it loads one library and computes its layers for its parent.

A request is pickled: (name, arguments). An answer is not, because the library can write to the pipe, too. It is
JSON: {"result": ...} or {"error": [class, message]}. For "run", the result is the types of the outputs, and their
bytes follow; see answers.py. Requests come on stdin, answers go to stdout; what the library prints goes to stderr.
"""

from __future__ import annotations

import os
import pickle
import sys
from collections.abc import Sequence
from contextlib import nullcontext
from typing import Any, BinaryIO

from anylayer.errors import AnyLayerError
from anylayer.kernels.answers import spelled, write_answer
from anylayer.kernels.layer import NativeLayer, NativeType
from anylayer.kernels.library import Library, load_library
from anylayer.libraries.stdout import redirected_stdout
from anylayer.network import Array, Node, TensorType


class ServedLibrary:
    """The library and the instances of its layers, by number."""

    def __init__(self) -> None:
        self._library: Library | None = None
        self._layers: dict[int, NativeLayer] = {}
        self._programs: dict[tuple[int, int | None], Any] = {}

    def load(self, path: str) -> tuple[str, str, dict[str, str]]:
        """Load the library. Return its version, its description, and the descriptions of its layer types."""
        self._library = library = load_library(path)
        types = {name: NativeType(library, name).__doc__ or "" for name in library.types}
        return library.version, library.description, types

    def bind(
        self, number: int, type_: str, node: Node, types: Sequence[TensorType], dtype: Any
    ) -> tuple[Any, ...]:
        """Create an instance. Return the types of its outputs and internal arrays, its configuration and notes."""
        if self._library is None:
            raise AnyLayerError("no library is loaded")
        layer = self._layers[number] = NativeType(self._library, type_)(node, types, dtype)
        return spelled(layer.outputs), spelled(layer.internals), str(layer.configuration), layer.notes

    def run(self, number: int, threads: int | None, inputs: Sequence[Array | None], drop: bool) -> list[Array]:
        """Compute an instance's outputs. drop: whether what the library prints is dropped."""
        key = number, threads
        if key not in self._programs:
            self._programs[key] = self._layers[number].program(threads)
        with redirected_stdout(drop=True) if drop else nullcontext():
            outputs: list[Array] = self._programs[key](inputs)
        return outputs

    def drop(self, number: int) -> None:
        """Destroy an instance."""
        self._layers.pop(number, None)
        for key in [key for key in self._programs if key[0] == number]:
            del self._programs[key]


def serve(requests: BinaryIO, answers: BinaryIO) -> None:
    """Answer requests until there are no more."""
    served = ServedLibrary()
    while True:
        try:
            name, arguments = pickle.load(requests)
        except EOFError:
            return
        try:
            result = getattr(served, name)(*arguments)
        except AnyLayerError as error:
            write_answer(answers, {"error": [type(error).__name__, error.message]})
        else:
            arrays: list[Array] = result if name == "run" else []
            types = spelled([TensorType.of(x.shape, x.dtype) for x in arrays])
            write_answer(answers, {"result": types if name == "run" else result}, arrays)


if __name__ == "__main__":
    private = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    serve(sys.stdin.buffer, private)
