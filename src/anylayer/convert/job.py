"""A conversion job: the network, the types of its inputs, and the options of the writer."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Protocol

from anylayer.compile.batch import with_symbolic_batch
from anylayer.compile.nodes import Definitions, input_arrays, input_types
from anylayer.compile.whole import Calls, whole
from anylayer.errors import InputError, LayerError, TraceError, at, nearest, need, wording
from anylayer.graph import Graph
from anylayer.network import Array, Network, TensorType
from anylayer.numerics import normal_noise
from anylayer.optimize.simplify import simplify
from anylayer.source import Source

_TRACED_BATCHES = (2, 3)
"""The batch sizes of the two traces from which a graph with a symbolic batch is made."""
_VERIFIED_BATCHES = (1, 2)
"""The batch sizes at which a file with a symbolic batch is verified."""


class HasOptions(Protocol):
    """A writer, or the target of a generator: WHAT it makes, and the names of its OPTIONS."""

    WHAT: str
    OPTIONS: Collection[str]


@dataclass(frozen=True, slots=True)
class Job:
    """What to write.

    `types` are the types of the network's inputs. `calls` says which layers stay calls in the file. `options` are
    the writer's. `batch` is the name of the symbolic batch size, or "" where the batch is a number; it is the
    first size of the inputs in `batched`. With `by_node`, the graph of each node is simplified on its own, and the
    whole graph is not.
    """

    network: Network
    definitions: Definitions
    types: Mapping[str, TensorType | None]
    calls: Calls = field(default_factory=Calls)
    options: Mapping[str, Any] = field(default_factory=dict)
    batch: str = ""
    batched: Collection[str] = ()
    by_node: bool = False

    def source(self, outputs: Mapping[str, str]) -> Source:
        """Trace the network, and return it as a writer takes it, with these outputs (public name to value)."""
        rewrite = partial(simplify, exact=True) if self.by_node else None
        traced = partial(whole, self.network, self.definitions, outputs=outputs, calls=self.calls, rewrite=rewrite)
        if not self.batch:
            return traced(self.types)
        advice = f"tracing with batch size {_TRACED_BATCHES[0]} failed, so the batch cannot be symbolic"
        with adding_advice(f"{advice}; give a number"):
            two, three = (traced(self.with_batch(n)) for n in _TRACED_BATCHES)
        unify = with_symbolic_batch if self.by_node else _simplified_with_symbolic_batch
        with at(self.network.source):
            graph = unify(two.graph, three.graph, self.batch)
        return replace(two, graph=graph, inputs={v.name: v.type for v in graph.inputs}, batch=self.batch)

    def with_batch(self, batch: int) -> dict[str, TensorType | None]:
        """Return the types of the inputs with this batch size."""
        return with_batch(self.types, batch, self.batched)

    def input_arrays(self, inputs: Mapping[str, Any]) -> dict[str, Array]:
        """Return the inputs as arrays of the network's types. Raises InputError where one is missing."""
        return input_arrays(self.types, inputs)

    def noise(self, seed: int) -> list[dict[str, Array]]:
        """Return seeded inputs to verify on: one set, or one for each of two sizes of a symbolic batch."""
        sets = [self.with_batch(n) for n in _VERIFIED_BATCHES] if self.batch else [dict(self.types)]
        return [noise(types, seed) for types in sets]


def job_of(
    network: Network,
    definitions: Definitions,
    shapes: Mapping[str, Sequence[int]] | None,
    writer: HasOptions,
    options: Mapping[str, Any],
) -> Job:
    """Return the job that the options of Net.write describe. An option that is None, False or empty is not given.

    Raises InputError for an option that the writer does not have.
    """
    given = {name: value for name, value in options.items() if value not in (None, False, (), [])}
    for name in given:
        need(
            name in writer.OPTIONS,
            f"{_option(name)}: {writer.WHAT} has no such option{nearest(name, writer.OPTIONS)}; its options: "
            f"{', '.join(map(_option, sorted(writer.OPTIONS))) or 'none'}",
            InputError,
        )
    functions, keep, batch = given.get("functions", ()), given.get("keep", ()), given.get("batch")
    if functions is True:
        functions = [t for t, found in definitions.items() if any(not d.built_in for d in found)]
    layout: str = getattr(writer, "LAYOUT", "")
    calls = Calls(frozenset(functions) - frozenset(keep), frozenset(keep), layout)
    types = input_types(network, shapes)
    batched = _batched_inputs(network, types)
    if type(batch) is int:
        types = with_batch(types, batch, batched)
    name = "N" if batch is True else batch if isinstance(batch, str) else ""
    return Job(network, definitions, types, calls, given, name, batched)


_FLAGS = {"functions": "functions", "keep": "keep", "batch": "batch", "dialect": "to-dialect"}
"""The options of Net.write that have an option of their own on the command line."""


def _option(name: str) -> str:
    """Spell a writer's option as the caller does: a Python argument, or an option of the command line."""
    return wording(name, f"--{_FLAGS.get(name, f'set {name}')}")


def _batched_inputs(network: Network, types: Mapping[str, TensorType | None]) -> list[str]:
    """Return the inputs whose first size is the batch: those whose first size the file leaves open, or else
    all."""
    left_open = [name for name, shape in network.open.items() if shape and shape[0] is None]
    return left_open or [name for name, kind in types.items() if kind is None or kind.shape]


def with_batch(
    types: Mapping[str, TensorType | None], batch: int, batched: Collection[str]
) -> dict[str, TensorType | None]:
    """Return the types with `batch` as the first size of the inputs in `batched`."""
    found = dict(types)
    for name in batched:
        known = types[name]
        if known is not None and known.shape:
            found[name] = TensorType((batch, *known.shape[1:]), known.dtype)
    return found


def _simplified_with_symbolic_batch(two: Graph, three: Graph, name: str) -> Graph:
    """Return one graph for every batch size from traces with 2 and 3 samples.

    The traces are simplified first where that works, because rewrite rules know less about symbolic sizes.
    """
    try:
        return with_symbolic_batch(simplify(two), simplify(three), name)
    except TraceError:
        return with_symbolic_batch(two, three, name)


def noise(types: Mapping[str, TensorType | None], seed: int) -> dict[str, Array]:
    """Return seeded noise for the inputs whose types are known: normal values for floats, 0 or 1 for other
    dtypes."""
    known = {name: kind for name, kind in types.items() if kind is not None}
    return dict(zip(known, normal_noise(known.values(), seed)))


@contextmanager
def adding_advice(text: str) -> Iterator[None]:
    """Append a sentence to the message of a LayerError that is raised inside."""
    try:
        yield
    except LayerError as error:
        error.message = f"{error.message}. {text[:1].upper()}{text[1:]}"
        raise
