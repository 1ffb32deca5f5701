"""The plan of a network for DMP's DV700: the layers that its hardware computes, and the offset of each buffer."""

from __future__ import annotations

import math
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

    def memory(self) -> Array:
        """Return the index of each element of the value, in the order of the buffer's memory."""
        buffer = self.buffer
        indices = np.arange(buffer.count)
        if not buffer.is_map:
            return indices
        c, h, w = buffer.shape
        planes = indices.reshape(h, w, c).transpose(2, 0, 1) if self.last else indices.reshape(c, h, w)
        if not buffer.half:
            return planes.transpose(1, 2, 0).reshape(-1)
        groups = [planes[i : i + 8].transpose(2, 1, 0).reshape(-1) for i in range(0, c, 8)]
        return np.concatenate(groups)

    def result(self) -> Array:
        """Return the index of each element of the value, in the order in which get_final_output returns them."""
        buffer = self.buffer
        if not (buffer.is_map and buffer.half):
            return self.memory()
        c, h, w = buffer.shape
        indices = np.arange(buffer.count)
        planes = indices.reshape(h, w, c).transpose(2, 0, 1) if self.last else indices.reshape(c, h, w)
        return planes.transpose(2, 1, 0).reshape(-1)


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
    """A layer: its kind, the names and place of the network's nodes, its buffers, and the operators that it
    computes.
    """

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
