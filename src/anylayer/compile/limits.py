"""How much a network may ask for. A file of a few lines can claim anything: what it claims is counted before it is
allocated, and refused where no machine, or not this one, can give it.

The numbers hold for every layer, whatever its type. What one weight may claim without a file stands in
layer/contract.py.
"""

from __future__ import annotations

import math
import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from anylayer.errors import AnyLayerError, EngineError, LayerError, need, wording
from anylayer.graph import Graph, Value
from anylayer.network import Array, TensorType

if TYPE_CHECKING:
    from anylayer.layer import Bound

MOST_VALUES = 2**31 - 1
"""Values of one array: as many as Caffe lets a blob have (blob.cpp Reshape, "blob size exceeds INT_MAX")."""
MOST_AXES = 32
"""Axes of one array: as many as Caffe lets a blob have (blob.hpp kMaxBlobAxes)."""
MOST_OPERATORS = 50_000
"""Operators of one network."""
MOST_IN_LAYER = 30_000
"""Operators of one built-in layer: a recurrence that the data may begin anew at every step takes 23 a step."""
MOST_WEIGHTS = 1 << 29
"""Weights of one network that no file holds: 2 GiB, the most that protobuf can hold and so a .caffemodel."""
MOST_COMPUTED = 1 << 29
"""Bytes of all that one network gives before it runs."""


@dataclass(slots=True)
class Budget:
    """What is left of a network's limits while its layers are traced one after the other."""

    operators: int = MOST_OPERATORS
    weights: int = MOST_WEIGHTS
    computed: int = MOST_COMPUTED

    def layer_operators(self) -> int:
        """The most operators that the next built-in layer may have."""
        return min(MOST_IN_LAYER, self.operators)

    def take_graph(self, graph: Graph) -> None:
        """Count a layer's operators; refuse an array that is too large to be."""
        for op in graph.ops:
            for value in op.outputs:
                need_countable(value.shape)
        self.operators -= len(graph.ops)
        need(self.operators >= 0, f"with it the network has more than {MOST_OPERATORS} operators")

    def take_weights(self, bound: Bound) -> None:
        """Count the weights that a layer wants and no file holds."""
        if not bound.definition.typed or bound.node.blobs:
            return
        self.weights -= sum(math.prod(w.shape) for w in bound.instance.wanted.values())
        need(
            self.weights >= 0,
            f"with it the network wants more than {MOST_WEIGHTS} weights that no file holds, more than a "
            ".caffemodel can",
        )

    def take_computed(self, count: int) -> None:
        """Count the bytes that a layer gives before the network runs."""
        self.need_computed(count)
        self.computed -= count

    def need_computed(self, count: int) -> None:
        """Refuse a layer that takes so many bytes before the network runs."""
        need(
            count <= self.computed,
            f"what it gives is known before the network runs and takes {shown(count)}; "
            f"{shown(MOST_COMPUTED)} is the most for all layers together, {shown(self.computed)} are left",
        )


def size(type_: TensorType | Value) -> int:
    """Bytes of an array; an axis whose size only the data tell counts as one."""
    return math.prod(d for d in type_.shape if isinstance(d, int)) * type_.dtype.itemsize


def need_countable(shape: Sequence[Any], what: str = "an array", error: type[AnyLayerError] = LayerError) -> None:
    """Refuse a shape of more axes or values than a blob of Caffe may have."""
    need(len(shape) <= MOST_AXES, f"{what} would have {len(shape)} axes, {MOST_AXES} are the most", error)
    count = math.prod(d for d in shape if isinstance(d, int))
    need(
        count <= MOST_VALUES,
        f"{what} of shape ({', '.join(map(str, shape))}) would have {count} values, {MOST_VALUES} are the most",
        error,
    )


def shown(count: int) -> str:
    """`1.5 GiB`."""
    value, units = float(count), ["bytes", "KiB", "MiB", "GiB", "TiB", "PiB"]
    while value >= 1024 and len(units) > 1:
        value /= 1024
        units.pop(0)
    return f"{value:.3g} {units[0]}"


# ---------------------------------------------------------------------- memory


def free_memory() -> int | None:
    """Bytes that this process can still take: what the machine, its control group and its address space leave.
    None where the system does not tell."""
    found = [n for n in (_machine(), _group(), _address_space()) if n is not None]
    return max(0, min(found)) if found else None


def need_memory(count: int, what: str) -> None:
    """Refuse what takes more memory than there is."""
    free = free_memory()
    if free is not None and count > free:
        raise EngineError(
            f"{what} takes {shown(count)} of memory or more, {shown(free)} are free. Give smaller inputs: "
            + wording("shapes={...}", "--shape")
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
    """What the process's control group (version 2, as containers see theirs) leaves."""
    folder = Path("/sys/fs/cgroup")
    try:
        most = int((folder / "memory.max").read_text())
        taken = int((folder / "memory.current").read_text())
        statistics = dict(line.split() for line in (folder / "memory.stat").read_text().splitlines())
        return most - taken + int(statistics["file"])  # cached files give way
    except (OSError, ValueError, KeyError):  # no such files, or "max"
        return None


def _address_space() -> int | None:
    if sys.platform == "win32":
        return None
    import resource

    most, _ = resource.getrlimit(resource.RLIMIT_AS)
    if most == resource.RLIM_INFINITY:
        return None
    try:
        pages = int(Path("/proc/self/statm").read_text().split()[0])
    except OSError:
        return most
    return most - pages * os.sysconf("SC_PAGE_SIZE")


def need_few(graph: Graph, engine: str, most: int) -> None:
    """Refuse a graph of more operators than an engine compiles in bearable time, which grows with their square."""
    count = len(graph.ops)
    need(
        count <= most,
        f"engine '{engine}' is not given graphs of more than {most} operators, it would take minutes to compile "
        f"them; this one has {count}",
        EngineError,
    )


def graph_memory(graph: Graph) -> int:
    """The least bytes it takes to run a graph: the values that are alive at once at its widest place, and the
    constants that are one value repeated, which no engine keeps so."""
    last: dict[Value, int] = {}
    for i, op in enumerate(graph.ops):
        last.update((v, i) for v in op.inputs if v is not None)
    last.update((v, len(graph.ops)) for v in graph.outputs)
    alive = sum(size(v) for v in graph.inputs if v in last)
    widest, repeated = alive, 0
    seen: set[Value] = set()
    for i, op in enumerate(graph.ops):
        for value in op.inputs:
            if value is None or value in seen or (value.const is None and last[value] != i):
                continue
            seen.add(value)
            if value.const is None:
                alive -= size(value)
            elif _is_repeated(value.const):
                repeated += value.const.nbytes
        alive += sum(size(v) for v in op.outputs if v in last)
        widest = max(widest, alive)
    return widest + repeated


def _is_repeated(array: Array) -> bool:
    return array.size > 1 and 0 in array.strides
