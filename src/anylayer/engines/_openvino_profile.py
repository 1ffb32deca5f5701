"""OpenVINO's performance counts: the time of each node of the graph that a plugin runs."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from statistics import fmean
from typing import Any

from anylayer.engines import Counter
from anylayer.graph import Graph, Op

_REORDER = "Reorder"
_WITHOUT_BIAS = "/WithoutBiases"
"""What OpenVINO's ONNX reader appends to the name of a convolution, where an addition of its bias follows."""
_BYTES = {"f32": 4, "i32": 4, "u32": 4, "bf16": 2, "f16": 2, "i8": 1, "u8": 1, "boolean": 1, "i64": 8, "f64": 8}
_DTYPES = {"f32": "float32", "f16": "float16", "bf16": "bfloat16", "i8": "int8", "u8": "uint8", "i32": "int32"}
"""NumPy's names of OpenVINO's precisions, as far as they differ and occur."""


class PerformanceCounts:
    """The performance counts of one compiled model: see _counting.Meter.

    `model` is the compiled model, and `read` gets the counts of its infer request; both are set once they exist.
    """

    graph: Graph
    model: Any
    read: Callable[[], Any]

    def __init__(self) -> None:
        self._skipped = 0
        self._before: dict[str, float] = {}

    def reset(self, runs: int) -> None:
        self._skipped, self._before = runs, self._means()

    def counters(self, times: Sequence[float]) -> tuple[list[Counter], float]:
        """Return the means of all runs. OpenVINO has no counters of single runs."""
        runs, skipped = self._skipped + len(times), self._skipped
        sums = {n: mean * runs - self._before.get(n, 0.0) * skipped for n, mean in self._means().items()}
        return _counters(self.model, self.graph, {n: max(t, 0.0) / len(times) for n, t in sums.items()}), fmean(
            times
        )

    def _means(self) -> dict[str, float]:
        """Return the mean seconds of each node that ran, over all runs until now; in whole microseconds."""
        return {i.node_name: i.real_time.total_seconds() for i in self.read() if i.status.name == "EXECUTED"}


def _counters(model: Any, graph: Graph, seconds: Mapping[str, float]) -> list[Counter]:
    """Return the nodes of a compiled model that ran, in computing order."""
    ops = {v.name: o for o in graph.ops for v in o.outputs}
    nodes = model.get_runtime_model().get_ordered_ops()
    counters = []
    for node in sorted(nodes, key=lambda n: int(_info(n, "execOrder") or 0)):
        name = node.get_friendly_name()
        if name not in seconds:
            continue
        reorder = _info(node, "layerType") == _REORDER
        held = [] if reorder else _known_operators(_names(node), ops)
        held = held or _known_operators(_before(node), ops) or _known_operators(_after(node), ops)
        operation = f"{_info(node, 'layerType')} {_info(node, 'primitiveType')}"
        precision = _info(node, "runtimePrecision")
        precision = _DTYPES.get(precision, precision)
        counters.append(
            Counter(name, operation, seconds[name], _moved_bytes(node), tuple(held), reorder, precision)
        )
    return counters


def _known_operators(names: Iterable[str], ops: Mapping[str, Op]) -> list[Op]:
    """Return the operators of these names, each once."""
    return list(dict.fromkeys(ops[name] for name in names if name in ops))


def _info(node: Any, key: str) -> str:
    """Return an entry of a node's runtime information as text; "" where there is none."""
    info = node.get_rt_info()
    return str(info[key].value if hasattr(info[key], "value") else info[key]) if key in info else ""


def _names(node: Any) -> list[str]:
    """Return the names of the operators that a node holds."""
    names = [node.get_friendly_name(), *_info(node, "originalLayersNames").split(",")]
    return [name.removesuffix(_WITHOUT_BIAS) for name in names]


def _before(node: Any) -> list[str]:
    """Return the names of the operators that produce the inputs of a node."""
    return [name for port in node.input_values() for name in _names(port.get_node())]


def _after(node: Any) -> list[str]:
    """Return the names of the operators that read a node's value."""
    return [name for port in node.outputs() for to in port.get_target_inputs() for name in _names(to.get_node())]


def _moved_bytes(node: Any) -> int:
    """Return the bytes of a node's inputs and outputs. Those of dynamic sizes are taken as 0."""
    total = 0
    for port in [*node.input_values(), *node.outputs()]:
        if not port.get_partial_shape().is_dynamic:
            width = _BYTES.get(port.get_element_type().get_type_name(), 4)
            total += math.prod(port.get_shape()) * width
    return total
