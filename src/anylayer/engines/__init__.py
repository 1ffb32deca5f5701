"""Engines: each module of this folder runs graphs in one way. "numpy", which runs the layers' `forward` itself, is
no engine of this folder.

An engine is a module `anylayer.engines.<name>`, named after its package on PyPI, that meets the protocol `Engine`.
What it computes wrongly is corrected or refused in corrections/<name>.py, if there is such a file.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Protocol, cast

from anylayer.errors import EngineError, nearest
from anylayer.folders import load, modules
from anylayer.graph import Graph
from anylayer.network import Array


class Program(Protocol):
    """A compiled graph. Safe to call from several threads."""

    def __call__(self, inputs: Sequence[Array], out: Sequence[Array | None] | None = None) -> list[Array]:
        """Outputs for the inputs; an array in `out` is used for its output where the engine can."""


class Engine(Protocol):
    """A module that compiles graphs.

    PRECISIONS: the precisions in which it can compute, "float32" among them.
    GENERAL: whether it runs every graph, each operator as the graph says. An engine that is not general runs
    some graphs only, in its own way, one sample at a time.
    """

    PRECISIONS: Collection[str]
    GENERAL: bool

    def suits(self, graphs: Sequence[Graph]) -> bool:
        """Whether `engine="auto"` measures this engine for a network of these graphs."""

    def compile(self, graph: Graph, threads: int | None = None, precision: str = "float32") -> Program:
        """Compile for `threads` threads (None: as many as the engine likes), computing in `precision`, one of
        PRECISIONS. Raises EngineError when the engine refuses the graph."""


def engines() -> list[str]:
    """Return the names of the engines, whether their packages are installed or not."""
    return modules("engines")


def installed() -> dict[str, Engine]:
    """Return the engines whose packages are installed, by name, the general ones first."""
    found = {}
    for name in engines():
        try:
            found[name] = load_engine(name)
        except EngineError:
            continue
    return dict(sorted(found.items(), key=lambda item: not item[1].GENERAL))


def load_engine(name: str) -> Engine:
    """Return an engine's module. Raises EngineError when it is unknown or not installed."""
    known = engines()
    if name not in known:
        raise EngineError(f"there is no engine '{name}'{nearest(name, known)}; engines: numpy, {', '.join(known)}")
    try:
        return cast(Engine, load("engines", name))
    except ModuleNotFoundError as error:
        if error.name is not None and error.name.startswith("anylayer"):
            raise
        raise EngineError(f"engine '{name}' needs: pip install {name}") from None
