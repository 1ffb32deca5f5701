"""The memory of a network: concats without copies, and the place of each buffer.

Branches that a concat joins become the runs of one layer, as in DMP's tool, or write into the concat's buffer.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from anylayer.generators.dv.plan import ALIGN, Concat, Convolution, DeviceBuffer, DvLayer, DvPlan, Runs

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
    made = {layer.output: layer for layer in plan.layers}

    def run(b: DeviceBuffer) -> DvLayer | None:
        """Return the layer that computes a map which only one layer reads, if it can be a run."""
        layer = made.get(b)
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
        found = [c for c in cut if c]
        if len(found) == len(chains) and sum(map(len, found)) <= _MAX_RUNS and _memory(found) <= _UNIFIED_BUFFER:
            return found
    return None


def _memory(branches: Sequence[Sequence[DvLayer]]) -> int:
    """Return the largest number of bytes in the unified buffer. It holds the input, the maps between runs, and one
    group of channels of a map that goes to the main memory."""
    largest = 0
    for branch in branches:
        start = _bytes(branch[0].inputs[0].buffer.shape)
        for layer in branch:
            shape = _computed(layer)
            last = layer is branch[-1]
            end = start + _bytes((min(shape[0], _GROUP), *shape[1:]) if last else shape)
            largest, start = max(largest, end), end
    return largest


def _computed(layer: DvLayer) -> tuple[int, ...]:
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
