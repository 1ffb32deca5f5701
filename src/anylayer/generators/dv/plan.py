"""The plan of a network for DMP's DV700: the layers that its hardware computes, and the offset of each buffer."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from anylayer.graph import Graph, Op, Value
from anylayer.network import Array

ALIGN = 16
"""Buffers and weights begin at multiples of these bytes."""


@dataclass(slots=True, eq=False)
class DeviceBuffer:
    """The memory of a layer's output without its batch axis: a map (C, H, W), or an array of another shape in C
    order.

    `half` says that it holds 16-bit floats, in the layout of the hardware if it is a map. Otherwise it holds
    32-bit floats; maps are then stored as (H, W, C). `last` is the last layer that reads it.
    `within` is the buffer that contains it, if there is one, and its first byte there.
    """

    shape: tuple[int, ...]
    is_map: bool
    half: bool = True
    offset: int = 0
    last: int = -1
    is_output: bool = False
    within: tuple[DeviceBuffer, int] | None = None

    @property
    def count(self) -> int:
        """The number of elements."""
        return math.prod(self.shape)

    @property
    def size(self) -> int:
        """The number of bytes."""
        return self.count * (2 if self.half else 4)

    @property
    def dims(self) -> list[int]:
        """The sizes in the order of a hardware layer's fields: (W, H, C) of a map. Other arrays keep at most three
        sizes, and have one, the number of elements, if their rank is higher."""
        if self.is_map:
            return list(self.shape[::-1])
        return list(self.shape) if 1 <= len(self.shape) <= 3 else [self.count]


@dataclass(frozen=True, slots=True)
class BufferView:
    """A value of the graph that is stored in a buffer. `last` says that the value is channels-last, (H, W, C)."""

    buffer: DeviceBuffer
    last: bool = False

    def memory(self, group: int = 8) -> Array:
        """Return the index of each element of the value, in the order of the buffer's memory. group: the channels
        that lie together in the hardware's layout.
        """
        indices = np.arange(self.buffer.count)
        if not self.buffer.is_map:
            return indices
        c, h, w = self.buffer.shape
        planes = indices.reshape(h, w, c).transpose(2, 0, 1) if self.last else indices.reshape(c, h, w)
        if not self.buffer.half:
            return planes.transpose(1, 2, 0).reshape(-1)
        groups = [planes[i : i + group].transpose(2, 1, 0).reshape(-1) for i in range(0, c, group)]
        return np.concatenate(groups)

    def result(self) -> Array:
        """Return the index of each element of the value, in the order in which get_final_output returns them."""
        return self.memory(self.buffer.shape[0] if self.buffer.is_map else 1)


@dataclass(slots=True)
class Convolution:
    """A convolution, an activation and a max pooling, each of which is optional; a sum of two maps; or an LRN.

    `weight` has shape (M, C, ky, kx). Sizes and strides of windows are (x, y), pads are (left, right, top,
    bottom). `activation` is the hardware's number of the function. `table` holds the different numbers among the
    weights if these are stored as 8-bit indices.
    """

    weight: Array | None = None
    bias: Array | None = None
    depthwise: bool = False
    transposed: bool = False
    stride: tuple[int, int] = (1, 1)
    dilation: tuple[int, int] = (1, 1)
    pads: tuple[int, int, int, int] = (0, 0, 0, 0)
    activation: int = 0
    parameter: float = 0.0
    slopes: Array | None = None
    pool: int = 0
    pool_size: tuple[int, int] = (0, 0)
    pool_stride: tuple[int, int] = (1, 1)
    pool_pads: tuple[int, int, int, int] = (0, 0, 0, 0)
    is_sum: bool = False
    lrn: bool = False
    table: Array | None = None


@dataclass(slots=True)
class FullyConnected:
    """A product with a matrix (M, inputs in the order of the buffer's memory), a bias, and an activation.

    `table` is as in Convolution.
    """

    weight: Array
    bias: Array
    activation: int = 0
    parameter: float = 0.0
    table: Array | None = None


@dataclass(slots=True)
class Concat:
    """The concat of maps along their channels. copies: whether the inputs lie elsewhere than in its buffer."""

    copies: bool = True


@dataclass(slots=True)
class Runs:
    """Several convolutions and poolings of one map. Bit i of `topology` says that the result of part i is the next
    part of the output; otherwise only part i + 1 reads it. The other parts read the map."""

    parts: Sequence[DvLayer]
    topology: int


@dataclass(slots=True)
class Softmax:
    """Softmax along the last of the layer's sizes."""


@dataclass(slots=True)
class Custom:
    """A layer on the CPU: `graph` computes its outputs. `op` is the layer's call, None for operators."""

    graph: Graph | None
    op: Op | None = None


Kind = Convolution | FullyConnected | Concat | Runs | Softmax | Custom


@dataclass(slots=True, eq=False)
class DvLayer:
    """A layer: its kind, the network's nodes by name and place, its buffers, and the operators it computes."""

    kind: Kind
    names: list[str]
    place: str
    inputs: list[BufferView]
    outputs: list[DeviceBuffer]
    ops: Sequence[Op] = ()

    @property
    def output(self) -> DeviceBuffer:
        """The buffer of the first output."""
        return self.outputs[0]


@dataclass(slots=True)
class DvPlan:
    """The layers in computing order. `results` are the views of the network's outputs. `size` is the size of all
    buffers in bytes. `graph` and `ops` are the network's operators, and `views` maps values to buffers.
    `weights` maps operators to the weights that the hardware has in place of their own.
    """

    inputs: list[BufferView]
    layers: list[DvLayer]
    results: list[BufferView]
    graph: Graph
    ops: Sequence[Op]
    views: Mapping[Value, BufferView]
    weights: Mapping[Op, Array] = field(default_factory=dict)
    size: int = 0


# ---- the memory of a network: concats without copies, and the place of each buffer. Branches that a concat joins
# become the runs of one layer, as in DMP's tool, or write into the concat's buffer.

_MAX_RUNS = 32  # runs of one layer
_DEPTH = 2
"""The largest number of runs in a row, as in DMP's tool."""
_UNIFIED_BUFFER = 640 * 1024
"""Bytes of the memory between the runs of a layer."""
_GROUP = 8
"""Channels per group in the hardware's layout. Maps of whole groups follow each other without gaps."""


def merge(plan: DvPlan) -> None:
    """Let the inputs of a concat be computed directly into its output, so that nothing is copied.

    This needs inputs (except the last) whose numbers of channels are multiples of 8, the hardware's group.
    """
    for layer in [layer for layer in plan.layers if isinstance(layer.kind, Concat)]:
        parts = [view.buffer for view in layer.inputs]
        if any(b.shape[0] % _GROUP for b in parts[:-1]):
            continue
        branches = None if parts[-1].shape[0] % _GROUP else _branches(plan, layer)
        if branches is not None:
            _join(plan, layer, branches)
        elif _can_hold(plan, parts):
            layer.kind, start = Concat(copies=False), 0
            for b in parts:
                b.within = (layer.output, start)
                start += b.size


def _can_hold(plan: DvPlan, parts: Sequence[DeviceBuffer]) -> bool:
    """Return whether layers write all parts of a concat as 16-bit floats, each for this concat only."""
    written = {b for layer in plan.layers if len(layer.outputs) == 1 for b in layer.outputs}
    return len(set(parts)) == len(parts) and all(b in written and b.half and b.within is None for b in parts)


def _branches(plan: DvPlan, concat: DvLayer) -> list[list[DvLayer]] | None:
    """Return the layers of each branch, from a map that all of them read to the concat; None where the hardware
    cannot compute them as one layer."""
    uses = Counter(view.buffer for layer in plan.layers for view in layer.inputs)
    uses.update(view.buffer for view in plan.results)
    producers = {layer.output: layer for layer in plan.layers}

    def run(b: DeviceBuffer) -> DvLayer | None:
        """Return the layer that computes a map which only one layer reads, if it can be a run."""
        layer = producers.get(b)
        kind = None if layer is None else layer.kind
        alone = isinstance(kind, Convolution) and (kind.is_sum or kind.lrn or kind.dilation != (1, 1))
        return layer if isinstance(kind, Convolution) and not alone and uses[b] == 1 else None

    chains: list[list[DvLayer]] = []
    for view in concat.inputs:
        chain: list[DvLayer] = []
        while len(chain) < _DEPTH and (layer := run(chain[0].inputs[0].buffer if chain else view.buffer)):
            chain.insert(0, layer)
        chains.append(chain)
    for source in {layer.inputs[0].buffer: None for layer in chains[0]}:
        cut = [
            next((c[i:] for i, layer in enumerate(c) if layer.inputs[0].buffer is source), None) for c in chains
        ]
        branches = [c for c in cut if c]
        if (
            len(branches) == len(chains)
            and sum(map(len, branches)) <= _MAX_RUNS
            and _memory(branches) <= _UNIFIED_BUFFER
        ):
            return branches
    return None


def _memory(branches: Sequence[Sequence[DvLayer]]) -> int:
    """Return the largest number of bytes in the unified buffer. It holds the input, the maps between runs, and one
    group of channels of a map that goes to the main memory."""
    largest = 0
    for branch in branches:
        start = _bytes(branch[0].inputs[0].buffer.shape)
        for layer in branch:
            shape = _shape_before_pool(layer)
            last = layer is branch[-1]
            end = start + _bytes((min(shape[0], _GROUP), *shape[1:]) if last else shape)
            largest, start = max(largest, end), end
    return largest


def _shape_before_pool(layer: DvLayer) -> tuple[int, ...]:
    """Return the shape of the map that a run computes before its max pooling."""
    kind, (c, h, w) = layer.kind, layer.output.shape
    if not isinstance(kind, Convolution) or kind.weight is None or not kind.pool:
        return c, h, w
    (kx, ky), (sx, sy) = kind.pool_size, kind.pool_stride
    return c, (h - 1) * sy + ky, (w - 1) * sx + kx


def _bytes(shape: Sequence[int]) -> int:
    """Return the size of a map in the unified buffer, whose groups of channels begin at certain banks."""
    c, h, w = shape
    group = -(-h * w * min(c, _GROUP) // 8)
    group += (2 - group) % 16
    total = group * -(-c // _GROUP)
    return (total + -total % 16) * 16


def _join(plan: DvPlan, concat: DvLayer, branches: Sequence[Sequence[DvLayer]]) -> None:
    """Replace a concat and its branches by one layer of several runs."""
    parts = [layer for branch in branches for layer in branch]
    ends = {branch[-1] for branch in branches}
    topology = sum((layer in ends) << i for i, layer in enumerate(parts))
    concat.kind, concat.inputs = Runs(parts, topology), branches[0][0].inputs[:1]
    concat.names = list(dict.fromkeys(name for layer in (*parts, concat) for name in layer.names))
    plan.layers[:] = [layer for layer in plan.layers if layer not in parts]


def allocate(plan: DvPlan) -> None:
    """Place the buffers in one block of memory. Buffers that are needed at the same time do not overlap."""
    end = len(plan.layers)
    for i, layer in enumerate(plan.layers):
        for view in layer.inputs:
            view.buffer.last = max(view.buffer.last, i)
    for view in plan.results:
        view.buffer.last, view.buffer.is_output = end, True
    inner = [b for layer in plan.layers for b in layer.outputs if b.within is not None]
    for b in inner:
        _root(b)[0].last = max(_root(b)[0].last, b.last)
    live: list[tuple[int, int, int]] = []  # begin, end, last layer
    blocks: list[tuple[int, Sequence[DeviceBuffer]]] = [(-1, [view.buffer]) for view in plan.inputs]
    blocks += [(i, [_root(b)[0] for b in layer.outputs]) for i, layer in enumerate(plan.layers)]
    placed: set[DeviceBuffer] = set()
    for i, buffers in blocks:
        if placed.issuperset(buffers):
            continue
        placed.update(buffers)
        live = [block for block in live if block[2] >= i]
        size, begin = sum(b.size for b in buffers), 0
        for low, high, _ in sorted(live):
            if low - begin >= size:
                break
            begin = max(begin, aligned(high))
        live.append((begin, begin + size, max(i, *(b.last for b in buffers))))
        plan.size = max(plan.size, aligned(begin + size))
        for buffer in buffers:
            buffer.offset, begin = begin, begin + buffer.size
    for b in inner:
        root, start = _root(b)
        b.offset = root.offset + start


def _root(buffer: DeviceBuffer) -> tuple[DeviceBuffer, int]:
    """Return the outermost buffer that contains a buffer, and the buffer's first byte there."""
    start = 0
    while buffer.within is not None:
        buffer, first = buffer.within
        start += first
    return buffer, start


def aligned(size: int) -> int:
    """Return a number of bytes, rounded up to where the next buffer may begin."""
    return -(-size // ALIGN) * ALIGN
