"""Values of two networks that correspond: equal numbers, maybe in another layout or flattened."""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import permutations

import numpy as np

from anylayer.compile.nodes import Definitions, run_bound
from anylayer.compile.plan import no_weights
from anylayer.graph.operators import REARRANGES
from anylayer.graph.sizes import is_static
from anylayer.layer import bind
from anylayer.network import ABSENT, Array, Network, Node, Shape, TensorType
from anylayer.numerics import DEEP_TOLERANCE, largest_error, rms_scale, scale_of, tells_enough, tolerance_for
from anylayer.source import TracedNode

_MAX_PERMUTED = 5
"""The largest rank of which all permutations are tried."""
_SAMPLES = 97
"""The number of elements that are compared before whole arrays are."""

_SEEN = 20_000
"""About the number of elements by which a value is judged."""


@dataclass(frozen=True, slots=True)
class AxisOrder:
    """How a value of A becomes one of B: it is transposed by `axes` and then has the shape `shape`."""

    axes: tuple[int, ...]
    shape: Shape

    def __call__(self, x: Array) -> Array:
        if self.axes and self.axes != tuple(range(x.ndim)):
            x = x.transpose(self.axes)
        return x.reshape(self.shape)

    @property
    def is_layout(self) -> bool:
        """Whether axes keep their order, or only the channels move to the other end."""
        return not self.axes or self.axes in layouts(len(self.axes))

    def __str__(self) -> str:
        """Return "" for axes in their order, and else what happens to them."""
        names = ["", "channels last", "channels first"]
        orders = dict(zip(layouts(len(self.axes)), names)) if len(self.axes) > 2 else {}
        is_same = self.axes == tuple(range(len(self.axes)))
        return "" if is_same else orders.get(self.axes, f"axes {', '.join(map(str, self.axes))}")


def layouts(rank: int) -> list[tuple[int, ...]]:
    """Return the permutations for channels that stay, that move to the last axis, and back."""
    same = tuple(range(rank))
    return [same] if rank < 3 else [same, (0, *same[2:], 1), (0, rank - 1, *same[1:-1])]


def arrangements(shape: Shape, other: Shape) -> Iterator[AxisOrder]:
    """Yield the arrangements that turn an array of the first shape into one of the second, usual ones first."""
    if np.prod(shape, dtype=float) != np.prod(other, dtype=float):
        return
    rank = len(shape)
    orders = layouts(rank)
    core = [axis for axis in range(rank) if shape[axis] != 1]
    sizes = [d for d in other if d != 1]
    if len(core) != len(sizes):  # flattened: the order of the elements is that of a layout
        yield from (AxisOrder(order, other) for order in orders)
        return
    ones = [axis for axis in range(rank) if shape[axis] == 1]
    seen = set()
    for moved in [[a for a in order if a in core] for order in orders] + (
        [list(p) for p in permutations(core)] if len(core) <= _MAX_PERMUTED else []
    ):
        if tuple(moved) not in seen and [shape[a] for a in moved] == sizes:
            seen.add(tuple(moved))
            yield _whole(moved, ones, rank, other)


def _whole(moved: list[int], ones: list[int], rank: int, other: Shape) -> AxisOrder:
    """Return the arrangement that moves the axes that are not 1 like this, as a layout where there is one."""
    for order in layouts(rank):
        if [a for a in order if a not in ones] == moved:
            return AxisOrder(order, other)
    left = iter(moved)
    return AxisOrder(tuple(a if a in ones else next(left) for a in range(rank)), other)


@dataclass(frozen=True, slots=True)
class Link:
    """A value of A that a value of B corresponds to. `error` is the largest difference, relative to the scale."""

    name: str
    how: AxisOrder
    error: float = 0.0


def relative_error(actual: Array, want: Array, scale: float = 0.0) -> float:
    """Return the largest difference of two arrays of the same shape, relative to the largest value or `scale`.

    Values other than floats are equal, or the error is infinite.
    """
    if actual.dtype.kind not in "fc" or want.dtype.kind not in "fc":
        return 0.0 if np.array_equal(actual, want) else float("inf")
    return largest_error(actual, want) / max(scale_of(want), scale)


def best_fit(
    x: Array, y: Array, scale: float = 0.0, limit: float = float("inf")
) -> tuple[AxisOrder, float] | None:
    """Return the arrangement of x that is closest to y, with the error. None where no one is within `limit`."""
    best: tuple[AxisOrder, float] | None = None
    flat = np.linspace(0, max(y.size - 1, 0), min(y.size, _SAMPLES)).astype(int)
    probe = y.ravel()[flat]
    for how in arrangements(x.shape, y.shape):
        arranged = how(x)
        bound = limit if best is None else min(limit, best[1])
        if bound < float("inf") and relative_error(probe, arranged.ravel()[flat], scale_of(x)) > bound:
            continue
        error = relative_error(y, arranged, scale)
        if error <= bound and (best is None or error < best[1]):
            best = how, error
        if error == 0:
            break
    return best


@dataclass
class Side:
    """One of the two networks: its nodes that depend on the inputs, and what they computed.

    `kinds` are the operators that a node records, without those that only rearrange elements. `values` are the
    arrays by name. Nodes are named by their index.
    """

    network: Network
    definitions: Definitions
    traced: list[TracedNode]
    nodes: list[Node] = field(default_factory=list)
    values: dict[str, Array] = field(default_factory=dict)
    producers: dict[str, int] = field(default_factory=dict)
    consumers: dict[str, list[int]] = field(default_factory=dict)
    kinds: list[tuple[str, ...]] = field(default_factory=list)
    tracings: list[TracedNode] = field(default_factory=list)
    constants: dict[str, Array] = field(default_factory=dict)

    def __post_init__(self) -> None:
        variable = set(self.network.inputs)
        for t in self.traced:
            node = t.node
            self.constants.update({node.outputs[i]: array for i, array in t.constants.items()})
            if t.is_constant or (node.inputs and not variable.intersection(node.inputs)):
                continue
            outputs = [name for i, name in enumerate(node.outputs) if i not in t.constants]
            variable.update(outputs)
            for name in self.data_inputs(node):
                self.consumers.setdefault(name, []).append(len(self.nodes))
            self.producers.update(dict.fromkeys(outputs, len(self.nodes)))
            self.nodes.append(node)
            self.tracings.append(t)
            self.kinds.append(_kinds(t))

    @property
    def types(self) -> list[TensorType]:
        """The types of all values whose sizes do not depend on data."""
        return [t for n in self.traced for t in n.outputs if t is not None and is_static(t.shape)]

    def data_inputs(self, node: Node) -> list[str]:
        """Return the inputs of a node that depend on data, each once."""
        variable = self.producers.keys() | self.network.inputs.keys()
        return [name for name in dict.fromkeys(node.inputs) if name in variable and name not in self.constants]

    def compute(self, node: Node, inputs: list[Array | None]) -> list[Array]:
        """Run one node in NumPy."""
        types = tuple(ABSENT if x is None else TensorType(x.shape, x.dtype) for x in inputs)
        bound = bind(node, self.definitions[node.type], types, self.network.dialect, self.network.dtype)
        outputs = run_bound(bound, inputs)
        if bound.unfilled:
            raise no_weights(self.network, node, bound.unfilled)
        return outputs

    def after(self, values: Iterable[str], limit: int) -> list[int]:
        """Return the first nodes, in computing order, that depend on values."""
        reached, nodes = set(values), []
        for i, node in enumerate(self.nodes):
            if reached.intersection(node.inputs):
                reached.update(node.outputs)
                nodes.append(i)
                if len(nodes) == limit:
                    break
        return nodes

    def between(self, start: Container[str], end: str) -> list[int]:
        """Return the nodes that compute `end` from other values of `start`, or from inputs, in computing order."""
        nodes: set[int] = set()
        left = [end]
        while left:
            name = left.pop()
            i = self.producers.get(name)
            if i is not None and i not in nodes and (name == end or name not in start):
                nodes.add(i)
                left += self.data_inputs(self.nodes[i])
        return sorted(nodes)


def _kinds(t: TracedNode) -> tuple[str, ...]:
    if t.body is None:
        return (t.node.type,)
    return tuple(o.op for o in t.body.ops if o not in REARRANGES and o.op != "Cast")


class Index:
    """The values of A, by their size and root mean square."""

    def __init__(self, values: Mapping[str, Array]) -> None:
        self._values = values
        self._sizes: dict[int, list[tuple[str, float]]] = {}
        for name, x in values.items():
            self._sizes.setdefault(x.size, []).append((name, rms_scale(x)))

    def near(self, y: Array) -> list[str]:
        """Return the values that may be equal to y up to their arrangement."""
        rms, kind = rms_scale(y), y.dtype.kind
        room = 2 * DEEP_TOLERANCE * max(rms, scale_of(y))
        return [
            n
            for n, other in self._sizes.get(y.size, ())
            if abs(other - rms) <= room and (self._values[n].dtype.kind == kind or kind in "iub")
        ]


def plain_name(name: str) -> str:
    """Return a name without the number of TensorFlow's first output."""
    return name.removesuffix(":0")


def tells(x: Array) -> bool:
    """Return whether equal numbers in another network mean that it computes the same."""
    some = x.ravel()[:: max(1, x.size // _SEEN)]
    return x.size > 1 and tells_enough(some, tolerance_for(x.dtype) * scale_of(some))


def tolerance_of(arrays: Iterable[Array], nodes: int) -> float:
    """Return the tolerance for values that some nodes compute from equal inputs, relative to the scale."""
    half = any(x.dtype == np.float16 for x in arrays)
    dtype = np.dtype(np.float16) if half else np.dtype(np.float32)
    return min(tolerance_for(dtype) * max(1, nodes), tolerance_for(dtype, deep=True))


def output_error(want: Array, actual: Array) -> tuple[float, AxisOrder | None]:
    """Return the smallest relative error of an output among the layouts, and the layout; else infinity."""
    layouts = [how for how in arrangements(want.shape, actual.shape) if how.is_layout]
    errors = [(relative_error(actual, how(want)), how) for how in layouts]
    return min(errors, key=lambda pair: pair[0]) if errors else (float(np.inf), None)
