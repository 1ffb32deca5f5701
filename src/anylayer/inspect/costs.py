"""The costs of a network's nodes: plain values that `profile` returns."""

from __future__ import annotations

import shutil
from dataclasses import asdict, dataclass, field
from typing import Any

from anylayer.inspect.profile_listing import lines

_NEITHER = 0.1
"""A node that reaches less than this share of both peaks is limited by neither."""


@dataclass(frozen=True, slots=True)
class Part:
    """One node of the engine's own graph, or one call of a layer, as it is timed.

    `name` and `operation` are spelled as by the engine. `start` is the time from the beginning of a run, if all
    parts ran one after the other without a gap. `seconds` is the mean time of a run, `bytes` the size of its
    inputs, weights and outputs. `precision` is what the engine computes it in, "" where the engine does not say
    it.
    """

    name: str
    operation: str
    start: float
    seconds: float
    bytes: int
    precision: str = ""


@dataclass(slots=True)
class NodeCost:
    """The cost of nodes of the network that run as one, per run.

    `layers` and `types` are the names and types of the network's nodes: several where the engine computes them
    together, none where it does not say. `lead` is the index of the one that stands for all: that with the most
    multiply-adds, or else with the largest number of operators.

    `where` is "engine", "native" (a kernel), "python" (a host call), "free" (assumed to take no time), "reorder"
    (the engine changes the order of values in memory, for these layers), or "call" (the time of a call of the
    engine outside its nodes; `step` is the index of its graph). `macs` is the number of multiply-adds, `bytes` the
    size of all inputs, weights and outputs of the parts. `engine` runs them, "" where no engine does.
    """

    layers: tuple[str, ...]
    types: tuple[str, ...]
    where: str
    step: int
    macs: int = 0
    parts: list[Part] = field(default_factory=list)
    engine: str = ""
    lead: int = 0

    @property
    def seconds(self) -> float:
        """The seconds of one run."""
        return sum(part.seconds for part in self.parts)

    @property
    def bytes(self) -> int:
        """The bytes that are read and written in one run."""
        return sum(part.bytes for part in self.parts)


@dataclass(frozen=True, slots=True)
class Peaks:
    """The largest speeds that were measured on this machine.

    `macs` is in multiply-adds of float32 per second, `bytes` in bytes per second to and from main memory. `how`
    says what was measured.
    """

    macs: float
    bytes: float
    how: str


@dataclass(frozen=True, slots=True)
class Cut:
    """A layer around which the network is cut into graphs; `where` is "native", "python" or "free"."""

    layer: str
    type: str
    where: str


@dataclass(frozen=True, slots=True)
class Steered:
    """Work whose amount depends on the values of a layer that is assumed free. `layer` and `type` are the
    network's node that does it, `free` is the layer, `why` says how the work depends on values."""

    free: str
    layer: str
    type: str
    why: str

    def __str__(self) -> str:
        return f"'{self.free}' steers '{self.layer}' ({self.type}): {self.why}"


@dataclass(slots=True)
class Profile:
    """What each node of a network costs.

    `seconds` is the median time of a run without counters. `costs` are in computing order, and add up to about
    the same. `counted` says whether the engine has counters; otherwise each call is timed from outside. `free` are
    the types that are assumed free; with `steered`, the times are no estimate. `unnamed` are the layers to which
    no node of the engine belongs: it computes them together with others, or has removed them. `engine` is the
    engine, or the fastest single one where several run the network; `engine_layers` are then (engine, its layers)
    for each part.
    """

    source: str
    engine: str
    threads: int | None
    seconds: float
    runs: int
    peaks: Peaks
    costs: list[NodeCost]
    counted: bool
    cuts: list[Cut] = field(default_factory=list)
    free: list[str] = field(default_factory=list)
    steered: list[Steered] = field(default_factory=list)
    unnamed: list[str] = field(default_factory=list)
    engine_layers: list[tuple[str, list[str]]] = field(default_factory=list)

    @property
    def total(self) -> float:
        """The sum of all costs, in seconds."""
        return sum(cost.seconds for cost in self.costs)

    def arithmetic(self, cost: NodeCost) -> float | None:
        """Return the share of the peak of multiply-adds that a node reaches; None for a node without any."""
        return cost.macs / cost.seconds / self.peaks.macs if cost.macs and cost.seconds else None

    def bandwidth(self, cost: NodeCost) -> float | None:
        """Return the share of the memory's peak bandwidth that a node reaches; None for a node without bytes.

        It exceeds 1 where arrays stay in a cache.
        """
        return cost.bytes / cost.seconds / self.peaks.bytes if cost.bytes and cost.seconds else None

    def limit(self, cost: NodeCost) -> str:
        """Return what limits a node: "compute" or "memory", whichever of the two it needs longer at its peak.

        Returns "neither" where it reaches less than a tenth of both peaks, and "" for a call and a free layer.
        """
        shares = self.arithmetic(cost) or 0.0, self.bandwidth(cost) or 0.0
        if not any(shares):
            return ""
        return "neither" if max(shares) < _NEITHER else "compute" if shares[0] >= shares[1] else "memory"

    def to_dict(self) -> dict[str, Any]:
        """Return the profile as plain values, for JSON. Times are in seconds."""
        data = asdict(self)
        del data["costs"], data["engine_layers"]
        return {
            **data,
            "total": self.total,
            "nodes": [self._cost_as_dict(cost) for cost in self.costs],
            "parts": [{"engine": engine, "layers": layers} for engine, layers in self.engine_layers],
            "valid": not self.steered,
        }

    def _cost_as_dict(self, cost: NodeCost) -> dict[str, Any]:
        data = asdict(cost)
        del data["lead"]
        return {
            **data,
            "layers": list(cost.layers),
            "types": list(cost.types),
            "seconds": cost.seconds,
            "share": cost.seconds / self.total if self.total else 0.0,
            "bytes": cost.bytes,
            "arithmetic": self.arithmetic(cost),
            "bandwidth": self.bandwidth(cost),
            "limit": self.limit(cost),
        }

    def trace(self) -> dict[str, Any]:
        """Return one run as a trace in Chrome's format, which chrome://tracing and Perfetto show.

        Parts follow each other without a gap, each with its mean time.
        """
        lanes = list(dict.fromkeys(cost.where for cost in self.costs))
        events: list[dict[str, Any]] = [
            {"name": "thread_name", "ph": "M", "pid": 1, "tid": lanes.index(lane), "args": {"name": lane}}
            for lane in lanes
        ]
        for cost in self.costs:
            for part in cost.parts:
                events.append(
                    {
                        "name": " + ".join(cost.layers) or part.name,
                        "cat": cost.where,
                        "ph": "X",
                        "pid": 1,
                        "tid": lanes.index(cost.where),
                        "ts": part.start * 1e6,
                        "dur": part.seconds * 1e6,
                        "args": {"node": part.name, "operation": part.operation, "bytes": part.bytes},
                    }
                )
        return {"traceEvents": events, "displayTimeUnit": "ms", "otherData": {"source": self.source}}

    def __str__(self) -> str:
        return "\n".join(lines(self, shutil.get_terminal_size().columns))
