"""ONNX Runtime's profile: the time of each node of its optimized graph."""

from __future__ import annotations

import json
import shutil
import tempfile
import weakref
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import fmean, median
from typing import Any

from anylayer.engines import Counter
from anylayer.graph import Graph, Op
from anylayer.libraries.onnx import onnx

_SUFFIX = "_kernel_time"
_REORDERS = ("ReorderInput", "ReorderOutput")
_FUSED_AFTER = ("Add", "Relu", "Clip", "Sigmoid", "Tanh", "LeakyRelu", "HardSigmoid")
"""Operators that a convolution computes together with its own result."""
_SIZES = ("activation_size", "parameter_size", "output_size")


@dataclass(slots=True)
class _Node:
    """One node of the optimized graph, with the microseconds of each run."""

    name: str
    operation: str
    bytes: int
    times: list[float] = field(default_factory=list)


class Profiler:
    """The profile of one session, and its optimized model: see _counting.Meter.

    `session` is set once it exists.
    """

    graph: Graph
    session: Any

    def prepare(self, graph: Graph, options: Any) -> None:
        """Let a session of `graph` be profiled. Called with its options before it is created."""
        self.graph = graph
        folder = Path(tempfile.mkdtemp(prefix="anylayer-"))
        self._removed = weakref.finalize(self, shutil.rmtree, folder, ignore_errors=True)
        self._model = folder / "optimized.onnx"
        self._skipped = 0
        options.enable_profiling = True
        options.profile_file_prefix = str(folder / "profile")
        options.optimized_model_filepath = str(self._model)
        options.add_session_config_entry("session.optimized_model_external_initializers_file_name", "constants")

    def reset(self, runs: int) -> None:
        self._skipped = runs

    def counters(self, times: Sequence[float]) -> tuple[list[Counter], float]:
        """End the profile of the session, and return the means over the runs that took at most the median time.

        Slower runs are left out, because pauses of the machine lengthen them.
        """
        nodes = _nodes(json.loads(Path(self.session.end_profiling()).read_bytes()), self._skipped)
        held = _held_operators(self.graph, onnx.load(str(self._model), load_external_data=False).graph)
        self._removed()
        limit = median(times)
        usual = [i for i, seconds in enumerate(times) if seconds <= limit]
        counters = [
            Counter(
                n.name,
                n.operation,
                fmean(n.times[i] for i in usual) * 1e-6,
                n.bytes,
                tuple(held.get(n.name, ())),
                n.operation in _REORDERS,
            )
            for n in nodes
        ]
        return counters, fmean(times[i] for i in usual)


def _nodes(events: Sequence[Mapping[str, Any]], skipped: int) -> list[_Node]:
    """Return the nodes in computing order. The times of a node that ran several times in a run are added."""
    nodes: dict[tuple[str, str], _Node] = {}
    runs = -1
    for event in sorted((e for e in events if e.get("ph") == "X"), key=_start):
        if event["name"] == "model_run":
            runs += 1
        elif event.get("cat") == "Node" and event["name"].endswith(_SUFFIX) and runs >= skipped:
            args = event["args"]
            name = event["name"].removesuffix(_SUFFIX)
            size = sum(int(args.get(s) or 0) for s in _SIZES)
            node = nodes.setdefault((args.get("node_index", ""), name), _Node(name, args.get("op_name", ""), size))
            node.times += [0.0] * (runs - skipped + 1 - len(node.times))
            node.times[-1] += event["dur"]
    for node in nodes.values():
        node.times += [0.0] * (runs - skipped + 1 - len(node.times))
    return list(nodes.values())


def _start(event: Mapping[str, Any]) -> tuple[float, float]:
    """Return the sort key of an event: the start, then the negative duration: enclosing events come first."""
    return event["ts"], -event["dur"]


def _held_operators(graph: Graph, optimized: Any) -> dict[str, list[Op]]:
    """Return the operators that each node of the optimized model holds, by the name of the node.

    An optimizer keeps the output name of the operators that it replaces, or names the new node after one of them.
    A reorder node is named after its input or output.
    """
    ops = {v.name: o for o in graph.ops for v in o.outputs}
    uses = _uses(graph)
    owners: dict[Op, str] = {}
    held_ops: dict[str, list[Op]] = {}
    for node in optimized.node:
        if node.op_type in _REORDERS:
            near = [ops[name] for name in (*node.output, *node.input[:1]) if name in ops]
            held_ops[node.name] = near or uses.get(node.input[0], [])
            continue
        producers = [ops[name] for name in node.output if name in ops]
        owners.update(dict.fromkeys(producers, node.name))
        replaced = ops.get(node.name.removesuffix("_nchwc"))
        if not producers and replaced is not None:
            owners[replaced] = node.name
    _add_results(graph, owners, uses, {n.name for n in optimized.node if n.name.endswith("_nchwc")})
    _add_operands(graph, owners, uses)
    for o in graph.ops:
        if o in owners:
            held_ops.setdefault(owners[o], []).append(o)
    return held_ops


def _uses(graph: Graph) -> dict[str, list[Op]]:
    """Return a mapping from the name of a value to the operators that read it."""
    uses: dict[str, list[Op]] = {}
    for o in graph.ops:
        for v in o.inputs:
            if v is not None and v.const is None:
                uses.setdefault(v.name, []).append(o)
    return uses


def _add_results(
    graph: Graph, owners: dict[Op, str], uses: Mapping[str, Sequence[Op]], replacing: Collection[str]
) -> None:
    """Assign operators after a convolution to its node if they were fused into it after it was named."""
    for o in graph.ops:
        if owners.get(o) in replacing:
            after = uses.get(o.outputs[0].name, [])
            if len(after) == 1 and after[0].op in _FUSED_AFTER and after[0] not in owners:
                owners[after[0]] = owners[o]


def _add_operands(graph: Graph, owners: dict[Op, str], uses: Mapping[str, Sequence[Op]]) -> None:
    """Assign the operators that no node names to the node of their first consumer, into which they were fused."""
    for o in reversed(graph.ops):
        if o not in owners:
            after = [owners[u] for v in o.outputs for u in uses.get(v.name, ()) if u in owners]
            owners.update({o: after[0]} if after else {})
