"""Engines: each module of this folder compiles graphs for one runtime. Engine "numpy", which calls each layer's
`forward`, is not in this folder.

An engine is a module `anylayer.engines.<name>`, named after its package on PyPI, that meets the protocol `Engine`.
Operators that it computes wrongly are corrected or refused in corrections/<name>.py.
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
        """Compute the outputs. An array in `out` is written to and returned for its output."""


class Engine(Protocol):
    """A module that compiles graphs.

    PRECISIONS: the precisions in which it can compute, including "float32".
    GENERAL: whether it runs every graph, each operator as the graph has it. An engine that is not general runs
    some graphs only, in its own way, and one sample at a time.
    """

    PRECISIONS: Collection[str]
    GENERAL: bool

    def suits(self, graphs: Sequence[Graph]) -> bool:
        """Return whether engine "auto" measures this engine for a network of these graphs."""

    def compile(self, graph: Graph, threads: int | None = None, precision: str = "float32") -> Program:
        """Compile a graph.

        threads: the number of threads; None lets the engine choose. precision: one of PRECISIONS, in which the
        engine computes. Raises EngineError where the engine refuses the graph.
        """


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
    """Return an engine's module. Raises EngineError where it is unknown or not installed."""
    known = engines()
    if name not in known:
        raise EngineError(f"there is no engine '{name}'{nearest(name, known)}; engines: numpy, {', '.join(known)}")
    try:
        return cast(Engine, load("engines", name))
    except ModuleNotFoundError as error:
        if error.name is not None and error.name.startswith("anylayer"):
            raise
        raise EngineError(f"engine '{name}' needs: pip install {name}") from None
