"""Reports: a table of a network's nodes with params, shapes, weights, multiply-adds, and where each node runs."""

from __future__ import annotations

import math
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from anylayer.compile.choices import first_sizes
from anylayer.compile.nodes import NO_DEFINITION, PROGRAM, Definitions, trace_nodes
from anylayer.compile.open import open_types
from anylayer.compile.plan import require_types
from anylayer.errors import nearest
from anylayer.graph.facts import multiply_adds
from anylayer.inspect.listing import ends, lines, to_html
from anylayer.inspect.page import to_frame, to_page
from anylayer.layer.contract import Wanted
from anylayer.layer.registry import Registry
from anylayer.libraries.whole import write_whole
from anylayer.network import Array, Network, TensorType, size_text
from anylayer.source import TracedNode

if TYPE_CHECKING:
    from anylayer.inspect.figures import Figures, Measured

Named = list[tuple[str, TensorType | None]]


@dataclass(slots=True)
class NodeReport:
    """One node of a report.

    `weights` is the number of values in its weights, `macs` the number of multiply-adds of one run at these
    shapes. `where` is "engine", "native" (a kernel of a library; `reason` says how it runs), "host" (it runs in
    Python, `reason` says why), "constant", "refused" (`reason` is the broken rule), "unknown" (its type has no
    definition) or "unshaped" (its input shapes are not known). `origin` is "built-in", the file of the user's
    class, or "". `figures` is what was measured, in a full report.
    """

    name: str
    type: str
    params: dict[str, Any]
    inputs: Named
    outputs: Named
    weights: int
    macs: int
    where: str
    reason: str
    origin: str
    notes: list[str] = field(default_factory=list)
    figures: Figures | None = None

    def plain_fields(self) -> dict[str, Any]:
        """Return the fields that are plain values, by name."""
        names = ("name", "type", "params", "weights", "macs", "where", "reason", "origin", "notes")
        return {name: getattr(self, name) for name in names}


@dataclass(slots=True)
class Report:
    """A table of a network's nodes.

    `open` and `layouts` are the network's. `weighted` says whether the network has weights, or a file of weights.
    `results` are the values that the outputs stand for.
    `measured` makes it a full report, which is shown as a page. All views of a network have their data from here:
    the text and JSON of `inspect`, the table of a notebook, and the page.
    """

    source: str
    dialect: str | None
    inputs: Named
    outputs: Named
    nodes: list[NodeReport]
    notes: list[str]
    open: dict[str, tuple[int | None, ...]] = field(default_factory=dict)
    layouts: dict[str, str] = field(default_factory=dict)
    weighted: bool = True
    results: tuple[str, ...] = ()
    measured: Measured | None = None

    @property
    def totals(self) -> dict[str, int]:
        """The numbers of nodes, weights and macs, and of nodes that are host calls, refused, unshaped, unknown."""
        where = [n.where for n in self.nodes]
        return {
            "nodes": len(self.nodes),
            "weights": sum(n.weights for n in self.nodes),
            "macs": sum(n.macs for n in self.nodes),
            **{kind: where.count(kind) for kind in ("host", "unshaped", "refused", "unknown")},
        }

    def to_dict(self) -> dict[str, Any]:
        """Return the report as plain values, for JSON."""
        measured = {} if self.measured is None else {"measured": self.measured.to_dict()}
        return {
            "source": self.source,
            "dialect": self.dialect,
            "inputs": _named_as_dicts(self.inputs),
            "outputs": _named_as_dicts(self.outputs),
            "nodes": [
                {
                    **n.plain_fields(),
                    "inputs": _named_as_dicts(n.inputs),
                    "outputs": _named_as_dicts(n.outputs),
                    **({} if n.figures is None else {"figures": asdict(n.figures)}),
                }
                for n in self.nodes
            ],
            "totals": self.totals,
            "notes": self.notes,
            **measured,
        }

    @property
    def layers(self) -> list[NodeReport]:
        """The nodes except those that hold the file's constants or compute only from such constants."""
        constant: set[str] = set()
        layers = []
        for n in self.nodes:
            if n.where == "constant" and constant.issuperset(name for name, _ in n.inputs):
                constant.update(name for name, _ in n.outputs)
            else:
                layers.append(n)
        return layers

    def __str__(self) -> str:
        width = shutil.get_terminal_size().columns
        return "\n".join([*(line for line, _ in lines(self, width)), *ends(self, width)])

    def to_html(self) -> str:
        """Return the report as one page of HTML, which needs no other file and no network access."""
        return to_page(self)

    def save(self, path: str | Path) -> None:
        """Write the page of `to_html` as a file."""
        page = self.to_html().encode()
        write_whole(Path(path), lambda file: file.write(page))

    def _repr_html_(self) -> str:
        return to_html(self) if self.measured is None else to_frame(self)


def _named_as_dicts(named: Named) -> list[dict[str, Any]]:
    return [
        {
            "name": name,
            "shape": [d if isinstance(d, int) else size_text(d) for d in t.shape] if t else None,
            "dtype": t.dtype.name if t else None,
        }
        for name, t in named
    ]


def make_report(
    network: Network,
    definitions: Definitions,
    shapes: Mapping[str, Sequence[int | str]] | None,
    traced_nodes: list[TracedNode] | None = None,
) -> Report:
    """Trace the nodes and return their report. A node that cannot be traced is in the report with its error. Open
    sizes have the first values at which files with them are traced. traced_nodes: gets the nodes."""
    nodes, notes = [], list(network.notes)
    types, sizes = open_types(network, shapes)
    if sizes is not None:
        symbols = first_sizes(sizes, types)[0]
        types = sizes.types(types, symbols)
        examples = ", ".join(f"{name}={value}" for name, value in symbols.items())
        notes.append(f"shapes and multiply-adds are those of an example of the open sizes: {examples}")
    values: dict[str, TensorType | None] = dict(types)
    notes += [f"input '{name}' takes images in {order} order" for name, order in network.channel_orders.items()]
    if network.sizes is not None:
        notes.append(str(network.sizes))
    for traced in trace_nodes(network, network.nodes, definitions, types, lenient=True):
        row = _row(traced, network.format)
        if traced_nodes is not None:
            traced_nodes.append(traced)
        nodes.append(row)
        values.update(row.outputs)
        if traced.problem is not None and row.where == "refused":
            notes.append(str(traced.problem))
        notes.extend(f"{traced.node.place}: {note}" for note in row.notes)
    return Report(
        network.source,
        network.dialect,
        list(types.items()),
        [(public, values.get(value)) for public, value in network.outputs.items()],
        nodes,
        notes,
        dict(network.open),
        dict(network.layouts),
        bool(network.weights) or any(node.blobs for node in network.nodes),
        tuple(network.outputs.values()),
    )


def _row(t: TracedNode, format_: str) -> NodeReport:
    node, bound = t.node, t.bound
    where, reason = "engine", ""
    if t.problem is not None:
        unknown = t.problem is NO_DEFINITION or t.problem is PROGRAM
        where = "refused" if t.problem.places else "unknown" if unknown else "unshaped"
        types = Registry.of(format_).types() if t.problem is NO_DEFINITION else []
        reason = nearest(node.type, types).removeprefix("; ") if types else t.problem.message
    elif t.is_constant:
        where = "constant"
    elif t.kernel is not None:
        where, reason = "native", _kernel_reason(t)
    elif t.is_host_call:
        where, reason = "host", t.reason
    weights = sum(int(b.size) for b in node.blobs)
    if not node.blobs and bound is not None and bound.definition.typed:
        weights = sum(math.prod(w.shape) for w in bound.instance.wanted.values())
    return NodeReport(
        node.name,
        node.type,
        node.params,
        [(name, kind) for name, kind in zip(node.inputs, t.inputs) if name],
        list(zip(node.outputs, t.outputs)),
        weights,
        multiply_adds(t.body.ops) if t.body is not None else 0,
        where,
        reason,
        _origin(t),
        _notes(t),
    )


def _origin(t: TracedNode) -> str:
    """Return the file that defines the node: the library of its kernel, else the file of its class."""
    if t.bound is None:
        return ""
    kernel = t.bound.definition.kernel if t.kernel is not None else None
    return kernel.origin if kernel is not None else t.bound.definition.origin


def _kernel_reason(t: TracedNode) -> str:
    """Say how a native kernel runs, and which NumPy class it is compared with."""
    definition = t.bound.definition if t.bound is not None else None
    if t.kernel is None or definition is None:
        return ""
    reference = "no NumPy class" if definition.native_only else f"NumPy class: {definition.origin}"
    return f"{t.kernel.configuration}; {reference}"


def _notes(t: TracedNode) -> list[str]:
    """Return the notes of the layer, and those of the tracer about a user's forward."""
    notes = list(t.bound.notes) if t.bound is not None else []
    if t.bound is not None and not t.bound.definition.built_in and t.body is not None:
        notes += t.body.notes
    if t.kernel is not None:
        notes += t.kernel.notes
    return list(dict.fromkeys(notes + t.notes))


def fill_weights(
    network: Network,
    definitions: Definitions,
    random: np.random.Generator,
    shapes: Mapping[str, Sequence[Any]] | None = None,
) -> None:
    """Give random blobs of a plausible scale to every layer that asks for weights and has none.

    The shapes of the weights follow from the network's input shapes; open sizes get numbers. Raises InputError
    where one is not known, and what tracing raises.
    """
    types, sizes = open_types(network, shapes)
    if sizes is not None:
        types = sizes.types(types, first_sizes(sizes, types)[0])
    for traced in trace_nodes(network, network.nodes, definitions, require_types(network, types)):
        bound = traced.bound
        if bound is None or not bound.definition.typed or not bound.unfilled:
            continue
        weights = bound.instance.wanted
        traced.node.blobs = [_random(weights[i], random) for i in sorted(weights)]


def _random(weight: Wanted, random: np.random.Generator) -> Array:
    """Return values for a weight: those of its filler where it gives other values than 0, and random ones
    otherwise.

    Normal values have the deviation sqrt(2 / inputs per output) (He et al., arXiv 1502.01852), so that activations
    keep their scale through the layers. A variance is between 0.5 and 1.5, and a factor is 1.
    """
    filler = weight.values()
    if filler is not None and filler.any():
        return np.array(filler)
    shape = weight.shape
    if "variance" in weight.what:
        return np.asarray(random.uniform(0.5, 1.5, shape), np.float32)
    if "factor" in weight.what:
        return np.ones(shape, np.float32)
    deviation = math.sqrt(2 / max(1, math.prod(shape[1:]))) if len(shape) > 1 else 0.1
    return np.asarray(random.standard_normal(shape, np.float32) * np.float32(deviation))
