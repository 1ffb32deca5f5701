"""Engines: one way to run a graph, one file. Each has `compile(graph, threads) -> program`."""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from typing import Protocol, cast

from anylayer.errors import EngineError, nearest
from anylayer.network import Array
from anylayer.tracing import Graph

ENGINES = ("onnxruntime", "openvino")
"""The engines that run graphs, in the order they are tried. ("numpy" runs the layers' forward itself.)"""

SPECIALISTS = ("ncnn",)
"""Engines that run some graphs only. "auto" tries one where engines/choice.py says that it may pay."""


class Program(Protocol):
    """A compiled graph. Safe to call from several threads."""

    def __call__(self, inputs: Sequence[Array], out: Sequence[Array | None] | None = None) -> list[Array]:
        """Outputs for the inputs; an array in `out` is used for its output where the engine can."""


class Engine(Protocol):
    """A module that compiles graphs."""

    PRECISIONS: Sequence[str]

    def compile(self, graph: Graph, threads: int | None = None, precision: str = "float32") -> Program:
        """Compile for `threads` threads (None: as many as the engine likes), computing in `precision`, one of
        PRECISIONS; raises EngineError when the engine refuses the graph."""


def load_engine(name: str) -> Engine:
    """The engine's module. Raises EngineError when it is unknown or not installed."""
    known = (*ENGINES, *SPECIALISTS)
    if name not in known:
        raise EngineError(f"there is no engine '{name}'{nearest(name, known)}; engines: numpy, {', '.join(known)}")
    try:
        return cast(Engine, importlib.import_module(f"anylayer.engines.{name}_engine"))
    except ModuleNotFoundError as error:
        if error.name is not None and error.name.startswith("anylayer"):
            raise
        raise EngineError(f"engine '{name}' needs: pip install {name}") from None
