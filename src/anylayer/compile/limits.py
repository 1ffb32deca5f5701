"""Limits on what a network may claim, whatever its layer types. A file of a few lines can claim any size, so sizes
are counted before memory is allocated, and refused above the limit or above this machine's free memory.

The limit for one weight that no file holds is MAX_WEIGHT_VALUES in layer/contract.py.
"""

from __future__ import annotations

import math
import os
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from anylayer.errors import AnyLayerError, EngineError, LayerError, need, wording
from anylayer.graph import Graph, Value
from anylayer.graph.symbolic import plain
from anylayer.network import MAX_RANK, MAX_VALUES, Array, TensorType

if TYPE_CHECKING:
    from anylayer.layer import Bound
if sys.platform != "win32":
    import resource

MAX_OPERATORS = 50_000
"""Operators of one network."""
MAX_LAYER_OPERATORS = 30_000
"""Operators per built-in layer. A recurrence whose state the data may reset at every step takes 23 per step."""
MAX_WEIGHTS = 1 << 29
"""Float32 weights per network that no file holds: 2 GiB, which is protobuf's limit for a message."""
MAX_COMPUTED_BYTES = 1 << 29
"""Bytes of all constants that the layers of a network compute before it runs."""
_ALWAYS_FREE = 1 << 20
"""Bytes that are not compared with the free memory: to ask the system for it takes longer than a small layer."""


@dataclass(slots=True)
class Budget:
    """The remainder of a network's limits while its layers are traced one after the other."""

    operators: int = MAX_OPERATORS
    weights: int = MAX_WEIGHTS
    computed: int = MAX_COMPUTED_BYTES

    def layer_operators(self) -> int:
        """Return the limit on operators for the next built-in layer."""
        return min(MAX_LAYER_OPERATORS, self.operators)

    def take_graph(self, graph: Graph) -> None:
        """Count a layer's operators. Refuse an array above the limits on values and axes."""
        for op in graph.ops:
            for value in op.outputs:
                need_countable(value.shape)
        self.operators -= len(graph.ops)
        need(self.operators >= 0, f"with it the network has more than {MAX_OPERATORS} operators")

    def take_weights(self, bound: Bound) -> None:
        """Count the weights that a layer with declared fields needs, if no file contains them."""
        if not bound.definition.typed or bound.node.blobs:
            return
        self.weights -= sum(math.prod(w.shape) for w in bound.instance.wanted.values())
        need(
            self.weights >= 0,
            f"with it the network needs more than {MAX_WEIGHTS} weights that no file holds, which is the limit",
        )

    def take_computed(self, count: int) -> None:
        """Count the bytes of constants that a layer has computed."""
        self.need_computed(count)
        self.computed -= count

    def need_computed(self, count: int) -> None:
        """Raise LayerError if a layer computes `count` bytes of constants and the budget has fewer left."""
        need(
            count <= self.computed,
            f"its outputs are constant and take {bytes_text(count)}; the limit for the constants of all layers is "
            f"{bytes_text(MAX_COMPUTED_BYTES)}, and {bytes_text(self.computed)} are left",
        )


def size(type_: TensorType | Value) -> int:
    """Return the bytes of an array of this type. A dynamic size is taken as 1."""
    return math.prod(d for d in plain(type_.shape) if isinstance(d, int)) * type_.dtype.itemsize


def need_countable(shape: Sequence[Any], what: str = "an array", error: type[AnyLayerError] = LayerError) -> None:
    """Raise `error` for a shape of more than MAX_RANK axes or MAX_VALUES values. A dynamic size and 0 are taken as
    1: NumPy refuses the shape (0, 2**62, 2**62), too.
    """
    need(len(shape) <= MAX_RANK, f"{what} would have {len(shape)} axes; the limit is {MAX_RANK}", error)
    count = math.prod(d or 1 for d in plain(shape) if isinstance(d, int))
    need(
        count <= MAX_VALUES,
        f"{what} of shape ({', '.join(map(str, shape))}) would have {count} values; the limit is {MAX_VALUES}",
        error,
    )


def countable_types(arrays: Iterable[Array]) -> Iterator[TensorType]:
    """Yield the types of arrays. Raise LayerError for one with more values or axes than the limit."""
    for array in arrays:
        need_countable(array.shape)
        yield TensorType(array.shape, array.dtype)


def bytes_text(count: int) -> str:
    """Return a number of bytes as text: "1.5 GiB"."""
    value, units = float(count), ["bytes", "KiB", "MiB", "GiB", "TiB", "PiB"]
    while value >= 1024 and len(units) > 1:
        value /= 1024
        units.pop(0)
    return f"{value:.3g} {units[0]}"


# ---------------------------------------------------------------------- memory


def free_memory() -> int | None:
    """Return the bytes that this process can still allocate, or None where the system does not report them.

    This is the smallest of what the machine, the process's control group and its address space leave.
    """
    limits = [n for n in (_machine(), _group(), _address_space()) if n is not None]
    return max(0, min(limits)) if limits else None


def need_memory(count: int, what: str) -> None:
    """Raise EngineError where `what` takes more than the free memory. `count` is in bytes."""
    free = free_memory() if count > _ALWAYS_FREE else None
    if free is not None and count > free:
        raise EngineError(
            f"{what} takes at least {bytes_text(count)} of memory, {bytes_text(free)} are free. "
            f"Give smaller inputs: {wording('shapes={...}', '--shape')}"
        )


def _machine() -> int | None:
    try:
        lines = Path("/proc/meminfo").read_text().splitlines()
    except OSError:
        if "SC_PHYS_PAGES" not in getattr(os, "sysconf_names", {}):
            return None
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    values = {name: int(rest.split()[0]) << 10 for name, _, rest in (line.partition(":") for line in lines)}
    return values.get("MemAvailable", values["MemFree"]) + values.get("SwapFree", 0)


def _group() -> int | None:
    """Return the bytes that the process's control group (version 2, inside a container) can still allocate."""
    folder = Path("/sys/fs/cgroup")
    try:
        limit = int((folder / "memory.max").read_text())
        used = int((folder / "memory.current").read_text())
        statistics = dict(line.split() for line in (folder / "memory.stat").read_text().splitlines())
        return limit - used + int(statistics["file"])  # the page cache is dropped on demand
    except (OSError, ValueError, KeyError):  # the files do not exist, or the limit is "max"
        return None


def _address_space() -> int | None:
    if sys.platform == "win32":
        return None
    limit, _ = resource.getrlimit(resource.RLIMIT_AS)
    if limit == resource.RLIM_INFINITY:
        return None
    try:
        pages = int(Path("/proc/self/statm").read_text().split()[0])
    except OSError:
        return limit
    return limit - pages * os.sysconf("SC_PAGE_SIZE")


def need_compilable(graph: Graph, engine: str, limit: int) -> None:
    """Raise EngineError for a graph of more than `limit` operators, which the engine would compile for minutes.

    The time to compile grows with the square of the number of operators.
    """
    count = len(graph.ops)
    need(
        count <= limit,
        f"engine '{engine}' is not used for graphs of more than {limit} operators, because it would compile them "
        f"for minutes; this one has {count}",
        EngineError,
    )


def graph_memory(graph: Graph) -> int:
    """Return a lower bound of the bytes that it takes to run a graph.

    This is the largest sum of the values that are alive at the same time, plus the broadcast constants (views with
    a stride of 0), which every engine copies in full.
    """
    last_use: dict[Value, int] = {}
    for i, op in enumerate(graph.ops):
        last_use.update((v, i) for v in op.inputs if v is not None)
    last_use.update((v, len(graph.ops)) for v in graph.outputs)
    alive = sum(size(v) for v in graph.inputs if v in last_use)
    widest, repeated = alive, 0
    seen: set[Value] = set()
    for i, op in enumerate(graph.ops):
        for value in op.inputs:
            if value is None or value in seen or (value.const is None and last_use[value] != i):
                continue
            seen.add(value)
            if value.const is None:
                alive -= size(value)
            elif value.const.size > 1 and 0 in value.const.strides:
                repeated += value.const.nbytes
        alive += sum(size(v) for v in op.outputs if v in last_use)
        widest = max(widest, alive)
    return widest + repeated


def allocated_bytes(outputs: Sequence[Array], sources: Sequence[Array | None]) -> int:
    """Return the bytes of the outputs that are not views of `sources`; a broadcast view has its full size."""
    there = [s for s in sources if s is not None]
    return sum(o.nbytes for o in outputs if 0 in o.strides or not any(np.may_share_memory(o, s) for s in there))
