"""Engines: each module of this folder compiles graphs for one runtime. Engine "numpy", which calls each layer's
`forward`, is not in this folder.

An engine is a module `anylayer.engines.<name>`, named after its package on PyPI, that meets the protocol `Engine`.
Operators that it computes wrongly are corrected or refused in corrections/<name>.py.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Protocol, cast, runtime_checkable

from anylayer.errors import EngineError, nearest
from anylayer.folders import load, modules
from anylayer.graph import Graph, Op
from anylayer.layer.native import NativeNode
from anylayer.network import Array


class Program(Protocol):
    """A compiled graph. Safe to call from several threads."""

    def __call__(self, inputs: Sequence[Array], out: Sequence[Array | None] | None = None) -> list[Array]:
        """Compute the outputs. An array in `out` is written to and returned for its output."""


@dataclass(frozen=True, slots=True)
class Counter:
    """What an engine has measured of one node of its own graph.

    `name` and `operation` are the engine's words. `seconds` is the mean time of a run. `bytes` is the size of the
    node's inputs, weights and outputs. `holds` are the operators of the compiled graph that the engine names for
    the node. A `reorder` changes only the order of values in memory, and holds the operators next to it.
    `precision` is the dtype that the engine computes in, by NumPy's name, "" where the engine does not say it.
    """

    name: str
    operation: str
    seconds: float
    bytes: int
    holds: tuple[Op, ...]
    reorder: bool = False
    precision: str = ""


@runtime_checkable
class CountedProgram(Program, Protocol):
    """A compiled graph whose nodes the engine measures. One thread may call it.

    `graph` is the graph that the engine was given, with its corrections.
    """

    graph: Graph

    def reset(self) -> None:
        """Forget what was measured."""

    def counters(self) -> tuple[list[Counter], float]:
        """Return what was measured since `reset`: the nodes in computing order, and the mean seconds of the calls
        that their times are the means of. Call it once, as the last method."""


class Engine(Protocol):
    """A module that compiles graphs. One that measures its nodes has a function `counted`: see `counting`. One
    that can run native layers inside its graphs has a function `embeds`: see `embedding`.

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


def counting(name: str) -> Callable[[Graph, int | None], CountedProgram] | None:
    """Return the function `counted(graph, threads)` of an engine, which compiles a graph so that its nodes are
    measured. Return None for an engine that has no counters. Raises EngineError as load_engine does."""
    found: Callable[[Graph, int | None], CountedProgram] | None = getattr(load_engine(name), "counted", None)
    return found


def embedding(name: str) -> Callable[[NativeNode], bool] | None:
    """Return the function `embeds(kernel)` of an engine, which says whether the engine can run a native layer as
    an operator of its graphs: see compile.plan.with_native_operators. Return None for an engine that cannot."""
    found: Callable[[NativeNode], bool] | None = getattr(load_engine(name), "embeds", None)
    return found


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
