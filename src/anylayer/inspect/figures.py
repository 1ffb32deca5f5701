"""What a full report adds to the table of nodes: figures that were measured, pictures, and the code of layers."""

from __future__ import annotations

import base64
from dataclasses import asdict, dataclass, field
from typing import Any

from anylayer.inspect.costs import Profile
from anylayer.inspect.verify import NodeCheck
from anylayer.source import TracedNode


@dataclass(slots=True)
class Figures:
    """What was measured of one node.

    `seconds` is the time of one run, None where none of the engine's nodes belongs to this node. Where the engine
    computes several nodes together, `together` are all of them, and the `lead` of their NodeCost has the time.
    `limit`, `arithmetic` and `bandwidth` are those of Profile. `precision` is what the node computes in. `check`
    is the comparison with NumPy. `recorded` counts the operators that the layer recorded, `compiled` those
    that are left of them after all rewrite rules; `into` is the node into which the others were folded.
    """

    seconds: float | None = None
    together: tuple[str, ...] = ()
    limit: str = ""
    arithmetic: float | None = None
    bandwidth: float | None = None
    precision: str = ""
    check: NodeCheck | None = None
    recorded: dict[str, int] = field(default_factory=dict)
    compiled: dict[str, int] | None = None
    into: str = ""


@dataclass(frozen=True, slots=True)
class Picture:
    """An input, an output or a feature map.

    `role` is "input", "output" or "map"; `what` says what the picture shows, `values` summarizes the array. `png`
    is the picture, None for an array that is not one. `top` are the largest values of a vector with their indices.
    """

    role: str
    name: str
    kind: str
    what: str
    values: str
    png: bytes | None = None
    size: tuple[int, int] = (0, 0)
    top: tuple[tuple[int, float], ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Return the picture as plain values, with the PNG as a data URI."""
        encoded = base64.b64encode(self.png).decode() if self.png is not None else ""
        return {
            "role": self.role,
            "name": self.name,
            "type": self.kind,
            "what": self.what,
            "values": self.values,
            "png": f"data:image/png;base64,{encoded}" if encoded else "",
            "width": self.size[0],
            "height": self.size[1],
            "top": [list(pair) for pair in self.top],
        }


@dataclass(frozen=True, slots=True)
class LayerCode:
    """The source of a user's layer type. `line` is the number of its first line in `file`. `calls` are the nodes
    that run in Python, each with the reason. `marked` are the lines that a reason names."""

    type: str
    file: str
    line: int
    text: str
    nodes: tuple[str, ...]
    calls: tuple[tuple[str, str], ...] = ()
    marked: tuple[int, ...] = ()


@dataclass(slots=True)
class Change:
    """What a conversion changed: `files` with their sizes in bytes, how often each type of node occurs before and
    after it, the comparison of each output, and notes."""

    format: str
    files: list[tuple[str, int]]
    before: dict[str, int]
    after: dict[str, int]
    checks: list[dict[str, Any]]
    compared: str
    notes: list[str]


@dataclass(slots=True)
class Measured:
    """What a full report has besides its nodes.

    `engine` ran the network. `gaps` say what could not be measured, and why.
    """

    engine: str = ""
    profile: Profile | None = None
    verified: bool = False
    pictures: list[Picture] = field(default_factory=list)
    code: list[LayerCode] = field(default_factory=list)
    change: Change | None = None
    gaps: list[str] = field(default_factory=list)

    def to_dict(self) -> dict[str, Any]:
        """Return the figures of the whole network as plain values, for JSON."""
        p = self.profile
        outside = dict.fromkeys(("reorder", "call"), 0.0)
        for cost in p.costs if p is not None else ():
            if cost.where in outside:
                outside[cost.where] += cost.seconds
        return {
            "engine": self.engine,
            "parts": [{"engine": engine, "layers": layers} for engine, layers in p.engine_layers] if p else [],
            "seconds": p.seconds if p is not None else None,
            "runs": p.runs if p is not None else 0,
            "total": p.total if p is not None else None,
            "counted": p.counted if p is not None else False,
            "threads": p.threads if p is not None else None,
            "outside": outside,
            "peaks": asdict(p.peaks) if p is not None else None,
            "verified": self.verified,
            "pictures": [picture.to_dict() for picture in self.pictures],
            "code": [asdict(code) for code in self.code],
            "change": asdict(self.change) if self.change is not None else None,
            "gaps": self.gaps,
        }


def figures_of(traced: TracedNode) -> Figures:
    """Return the figures of a node that follow from tracing it."""
    recorded: dict[str, int] = {}
    for o in traced.body.ops if traced.body is not None else ():
        recorded[o.op] = recorded.get(o.op, 0) + 1
    first = next((t for t in traced.outputs if t is not None), None)
    return Figures(recorded=recorded, precision=first.dtype.name if first is not None else "")
