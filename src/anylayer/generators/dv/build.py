"""Turn the graph of a network into layers of DMP's DV700: hardware layers are recognized and fused."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from anylayer.errors import LayerError, at, need
from anylayer.generators.dv.graphs import convertible, mean, part
from anylayer.generators.dv.plan import (
    BufferView,
    Concat,
    Convolution,
    Custom,
    DeviceBuffer,
    DvLayer,
    DvPlan,
    FullyConnected,
    Kind,
    Softmax,
    allocate,
    merge,
)
from anylayer.generators.dv.weights import (
    LARGEST,
    MAX_KERNEL,
    dense,
    factors,
    is_pool,
    max_stages,
    mirrored,
    nearest,
    sides,
    spread,
    table_of,
    xy,
)
from anylayer.graph import Graph, Op, Value
from anylayer.graph.facts import Window, number, per_channel, window_of
from anylayer.graph.operators import VIEWS
from anylayer.network import Array
from anylayer.optimize.rewrites.resizing import is_portable
from anylayer.writers._target import Consumers

MAX_WIDTH, MAX_HEIGHT, MAX_CHANNELS, MAX_INPUTS, MAX_PAD, MAX_STRIDE = 2047, 1024, 32768, 16384, 127, 255
"""Limits of the hardware: the sizes of maps, the inputs of a fully connected layer, and numbers of windows."""

_TO_FIRST, _TO_LAST = [0, 3, 1, 2], [0, 2, 3, 1]
_LRN = {"size": 5.0, "alpha": 1e-4, "beta": 0.75, "bias": 1.0}
"""The parameters of the hardware's LRN, which are those of AlexNet and GoogLeNet in Caffe."""
_LRN_CHANNELS = 16
"""Maps with an LRN have a multiple of this number of channels."""


def build(graph: Graph, places: Mapping[str, str], quantization: bool = False) -> DvPlan:
    """Return the plan of a simplified graph. places: the place of each node of the network, by name. quantization:
    whether hardware layers have weights of 8 bits.

    Raises LayerError, with the node, where a size exceeds a limit of the hardware.
    """
    return _PlanBuilder(graph, places, quantization).plan()


@dataclass(slots=True)
class _Activation:
    """An activation of the hardware: its number in convolutions and in fully connected layers; 0 if absent."""

    conv: int
    fc: int
    parameter: float = 0.0
    slopes: Array | None = None


def _activation(op: Op) -> _Activation | None:
    """Return the hardware's activation function for an operator, or None."""
    if op.domain:
        return None
    if op.op == "Relu":
        return _Activation(2, 1)
    if op.op == "LeakyRelu":
        return _Activation(2, 3, float(op["alpha"]))
    if op.op in ("Tanh", "Sigmoid"):
        return _Activation(1, 2) if op.op == "Tanh" else _Activation(3, 4)
    if op.op == "Elu" and op["alpha"] == 1.0:
        return _Activation(5, 0)
    if op.op == "Clip" and number(op.inputs[1]) == 0 and number(op.inputs[2]) == 6:
        return _Activation(6, 0)
    if op.op == "PRelu" and op.outputs[0].shape[2:]:
        slopes = per_channel(op.inputs[1], op.outputs[0].shape)
        return None if slopes is None else _Activation(4, 0, slopes=slopes)
    return None


class _PlanBuilder:
    """A plan under construction. `views` maps each computed value to a view of its buffer."""

    def __init__(self, graph: Graph, places: Mapping[str, str], quantization: bool) -> None:
        self.graph, self.places, self.quantization = graph, places, quantization
        self.weights: dict[Op, Array] = {}
        self.ops = graph.ops
        self.consumers = Consumers(self.ops, graph.outputs)
        self.done: set[Op] = set()
        self.views: dict[Value, BufferView] = {}
        self.layers: list[DvLayer] = []
        self.rules: dict[str, Callable[[Op], bool]] = {
            **dict.fromkeys(("Conv", "ConvTranspose"), self.convolution),
            **dict.fromkeys(("MaxPool", "AveragePool", "GlobalAveragePool"), self.pooling),
            "Resize": self.upsampling, "Gemm": self.fully_connected,
            "MatMul": self.fully_connected, "Concat": self.concat, "Softmax": self.softmax, "Add": self.sum,
            "LRN": self.lrn, "Transpose": self.transposition, **dict.fromkeys(VIEWS, self.reshaping),
        }  # fmt: skip

    def plan(self) -> DvPlan:
        for value in self.graph.inputs:
            users = self.consumers.of(value)
            last = bool(users) and all(u.op == "Transpose" and u["perm"] == _TO_FIRST for u in users)
            self.views[value] = BufferView(self.buffer(value, last), last)
        starts = [self.views[value] for value in self.graph.inputs]
        for i, op in enumerate(self.ops):
            if op in self.done:
                continue
            with at(self.places.get(op.scope, "")):
                if op.domain or op.op not in self.rules or not self.rules[op.op](op):
                    self.custom(i)
        for value in self.graph.outputs:
            if value.const is not None and value not in self.views:
                self.constant(value)
        results = [self.views[v] for v in self.graph.outputs]
        plan = DvPlan(starts, self.layers, results, self.graph, self.ops, self.views, self.weights)
        self.choose_formats(plan)
        merge(plan)
        allocate(plan)
        return plan

    # ---- values and buffers

    def buffer(self, value: Value, last: bool = False) -> DeviceBuffer:
        """Return a new buffer for a value. last: whether the value's axes are (N, H, W, C)."""
        need(
            all(isinstance(d, int) for d in value.shape),
            "the size of its output depends on data, and buffers of the hardware have fixed sizes; end the "
            "network before this layer, and compute it in the application",
        )
        shape = tuple(map(int, value.shape))
        if len(shape) == 4 and shape[0] == 1:
            return DeviceBuffer((shape[3], *shape[1:3]) if last else shape[1:], True)
        return DeviceBuffer(shape[1:] if shape[:1] == (1,) and len(shape) > 1 else shape, False)

    def map_of(self, value: Value | None) -> BufferView | None:
        """Return the view of a value that is a map (1, C, H, W); None for other values."""
        view = None if value is None else self.views.get(value)
        if value is None or view is None or not view.buffer.is_map or view.last or len(value.shape) != 4:
            return None
        return view

    def names(self, ops: Sequence[Op]) -> list[str]:
        return list(dict.fromkeys(op.scope or op.outputs[0].name for op in ops))

    def add(self, kind: Kind, ops: Sequence[Op], inputs: list[BufferView], outputs: Sequence[Value]) -> bool:
        """Add a layer. Return True, the result of all methods that have handled an operator."""
        buffers = [self.buffer(v) for v in outputs]
        self.layers.append(DvLayer(kind, self.names(ops), self.places.get(ops[0].scope, ""), inputs, buffers, ops))
        self.views.update((v, BufferView(b)) for v, b in zip(outputs, buffers))
        self.done.update(ops)
        return True

    def alias(self, op: Op, view: BufferView) -> bool:
        self.views[op.outputs[0]] = view
        self.done.add(op)
        return True

    # ---- hardware layers

    def check(self, view: BufferView) -> None:
        """Raise LayerError for a map that is too large for the hardware."""
        c, h, w = view.buffer.shape
        for size, limit, what in (
            (w, MAX_WIDTH, "width"),
            (h, MAX_HEIGHT, "height"),
            (c, MAX_CHANNELS, "channels"),
        ):
            need(size <= limit, f"the hardware takes maps of at most {limit} ({what}), got {size}")

    def convolution(self, op: Op) -> bool:
        """Add a convolution. A transposed one is a convolution of the map with zeros between its pixels."""
        view, window, weight, bias = self.map_of(op.first), window_of(op), op.constant(1), op.constant(2)
        if view is None or window is None or weight is None or len(window.kernel) != 2:
            return False
        if bias is None and op.input(2) is not None:  # the hardware has no computed bias
            return False
        self.check(view)
        group, transposed = int(op["group"]), op.op == "ConvTranspose"
        kernel = mirrored(weight, group) if transposed else weight
        begins, ends, dilations = window.begins, window.ends, window.dilations
        if transposed:
            last = op["output_padding"] or (0, 0)
            begins = [e - 1 - p for e, p in zip(window.extents, begins)]
            ends = [e - 1 - p + int(q) for e, p, q in zip(window.extents, ends, last)]
        same = all(o * s == n for o, s, n in zip(op.outputs[0].shape[2:], window.strides, view.buffer.shape[1:]))
        if dilations != [1, 1] and (transposed or group > 1 or not same or not all(k % 2 for k in window.kernel)):
            kernel, dilations = spread(kernel, dilations), [1, 1]
        changed = transposed or kernel.shape[2:] != tuple(window.kernel)
        if changed and (max(kernel.shape[2:]) > MAX_KERNEL or min(*begins, *ends) < 0):
            return False
        for numbers, limit, what in (
            (kernel.shape[2:], MAX_KERNEL, "kernels"),
            (window.strides, MAX_STRIDE, "strides"),
            ((*begins, *ends), MAX_PAD, "padding"),
            (dilations, MAX_STRIDE, "dilations"),
        ):
            text = " x ".join(map(str, numbers))
            need(max(numbers) <= limit, f"the hardware takes {what} of at most {limit}, got {text}")
        outputs = kernel.shape[0]
        depthwise = group == view.buffer.shape[0] == outputs and group > 1
        kind = Convolution(
            kernel if depthwise else dense(kernel, group),
            np.zeros(outputs, np.float32) if bias is None else bias,
            depthwise,
            transposed,
            xy(window.strides),
            xy(dilations),
            sides(begins, ends),
        )
        ops, value = self.fused(kind, [op])
        if kind.slopes is None:  # the hardware cannot combine weights of 8 bits with PReLU
            self.quantize(kind, op, weight)
        return self.add(kind, ops, [view], [value])

    def quantize(self, kind: Convolution | FullyConnected, op: Op, weight: Array) -> None:
        """Give a layer weights of 8 bits, if these are wanted. weight: those of the operator."""
        if not self.quantization or kind.weight is None or not np.abs(weight).max(initial=0) < LARGEST:
            return
        kind.table = table_of(weight)
        kind.weight = nearest(kind.table, kind.weight)
        self.weights[op] = nearest(kind.table, weight)

    def fused(self, kind: Convolution, ops: list[Op]) -> tuple[list[Op], Value]:
        """Fuse the activation and max pooling after a layer into it. Return them and the last value."""
        value = ops[-1].outputs[0]
        follower = self.consumers.only(value)
        activation = None if follower is None else _activation(follower)
        dilated = kind.dilation != (1, 1)
        fits = activation is not None and not (dilated and activation.slopes is not None)
        if follower is not None and activation is not None and fits and follower.inputs[0] is value:
            kind.activation, kind.parameter, kind.slopes = activation.conv, activation.parameter, activation.slopes
            ops, value = [*ops, follower], follower.outputs[0]
            follower = self.consumers.only(value)
        alone = kind.is_sum or dilated
        if (
            follower is not None
            and follower.op == "MaxPool"
            and not (follower.domain or alone)
            and self.pool(kind, follower)
        ):
            ops, value = [*ops, follower], follower.outputs[0]
        return ops, value

    def pool(self, kind: Convolution, op: Op) -> bool:
        """Add a pooling to a layer. Return False where the hardware has no such pooling."""
        window, average = _pooling_window(op), op.op != "MaxPool"
        if window is None or not is_pool(window.kernel, average):
            return False
        if average and any(window.pads) and not op["count_include_pad"]:
            return False
        kind.pool, kind.pool_size, kind.pool_stride = 2 if average else 1, xy(window.kernel), xy(window.strides)
        kind.pool_pads = sides(window.begins, window.ends)
        return True

    def pooling(self, op: Op) -> bool:
        view, kind = self.map_of(op.inputs[0]), Convolution()
        if view is None:
            return False
        self.check(view)
        if self.pool(kind, op):
            return self.add(kind, [op], [view], op.outputs)
        if op.op != "MaxPool":
            return tuple(op.outputs[0].shape[2:]) == (1, 1) and self.mean(op, view)
        window = _pooling_window(op)
        stages = window and max_stages(window.kernel, window.strides, window.begins, window.ends)
        if not stages:
            return False
        for size, stride, pads in stages[:-1]:
            part = Convolution(pool=1, pool_size=size, pool_stride=stride, pool_pads=pads)
            view = self.stage(part, op, view)
        size, stride, pads = stages[-1]
        last = Convolution(pool=1, pool_size=size, pool_stride=stride, pool_pads=pads)
        return self.add(last, [op], [view], op.outputs)

    def stage(self, part: Convolution, op: Op, view: BufferView) -> BufferView:
        """Add a pooling whose result only the next stage of the same operator reads. Return the result."""
        c, h, w = view.buffer.shape
        left, right, top, bottom = part.pool_pads
        (kx, ky), (sx, sy) = part.pool_size, part.pool_stride
        buffer = DeviceBuffer((c, (h + top + bottom - ky) // sy + 1, (w + left + right - kx) // sx + 1), True)
        place = self.places.get(op.scope, "")
        self.layers.append(DvLayer(part, self.names([op]), place, [view], [buffer], [op]))
        return BufferView(buffer)

    def mean(self, op: Op, view: BufferView) -> bool:
        """Add the mean of a whole map as average poolings that the hardware supports, or as a layer on the CPU."""
        window = window_of(op)
        sizes = list(view.buffer.shape[1:])
        if window is None or list(window.kernel) != sizes or any((*window.begins, *window.ends)):
            return False
        parts = [factors(n) for n in sizes]
        if any(n > MAX_KERNEL for part in parts for n in part):
            return self.add(Custom(mean(op)), [op], [view], op.outputs)
        ys, xs = ([*part, *[1] * (max(map(len, parts)) - len(part))] for part in parts)
        for y, x in list(zip(ys, xs))[:-1]:
            view = self.stage(Convolution(pool=2, pool_size=(x, y), pool_stride=(x, y)), op, view)
        last = (xs[-1], ys[-1])
        return self.add(Convolution(pool=2, pool_size=last, pool_stride=last), [op], [view], op.outputs)

    def upsampling(self, op: Op) -> bool:
        view, shape = self.map_of(op.inputs[0]), op.outputs[0].shape
        if view is None or op["mode"] != "nearest" or len(shape) != 4:
            return False
        c, h, w = view.buffer.shape
        if tuple(shape) != (1, c, 2 * h, 2 * w) or not is_portable(op):
            return False
        self.check(view)
        return self.add(Convolution(pool=4, pool_size=(2, 2)), [op], [view], op.outputs)

    def sum(self, op: Op) -> bool:
        views = [self.map_of(v) for v in op.inputs]
        a, b = views
        if a is None or b is None or a.buffer.shape != b.buffer.shape:
            return False
        self.check(a)
        kind = Convolution(is_sum=True)
        ops, value = self.fused(kind, [op])
        if kind.slopes is not None:
            kind, ops, value = Convolution(is_sum=True), [op], op.outputs[0]
        return self.add(kind, ops, [a, b], [value])

    def lrn(self, op: Op) -> bool:
        """Add an LRN across channels, which the hardware computes with one choice of parameters only."""
        view = self.map_of(op.inputs[0])
        supported = all(np.isclose(op[name], n, 1e-6) for name, n in _LRN.items())
        if view is None or not supported or view.buffer.shape[0] % _LRN_CHANNELS:
            return False
        self.check(view)
        return self.add(Convolution(lrn=True), [op], [view], op.outputs)

    def fully_connected(self, op: Op) -> bool:
        view, matrix = self.views.get(op.first), op.constant(1)
        product = op.op == "MatMul"
        plain = product or (op["alpha"] == op["beta"] == 1.0 and not op["transA"])
        if view is None or matrix is None or matrix.ndim != 2 or not plain:
            return False
        if tuple(op.first.shape) != (1, view.buffer.count):
            return False
        weight = matrix if not product and op["transB"] else matrix.T
        need(
            weight.shape[1] <= MAX_INPUTS,
            f"the hardware takes fully connected layers of at most {MAX_INPUTS} inputs, got {weight.shape[1]}",
        )
        bias = np.zeros(1, np.float32) if op.input(2) is None else op.constant(2)
        if bias is None:
            return False
        kind = FullyConnected(weight, np.broadcast_to(bias.reshape(-1), weight.shape[:1]))
        self.quantize(kind, op, matrix)
        ops, value = [op], op.outputs[0]
        follower = self.consumers.only(value)
        activation = None if follower is None else _activation(follower)
        if follower is not None and activation is not None and activation.fc:
            kind.activation, kind.parameter = activation.fc, activation.parameter
            ops, value = [op, follower], follower.outputs[0]
        return self.add(kind, ops, [view], [value])

    def concat(self, op: Op) -> bool:
        views = [self.map_of(v) for v in op.inputs]
        starts = [self.views[value].buffer for value in self.graph.inputs]  # no layer computes them
        if op["axis"] not in (1, -3) or any(v is None or v.buffer in starts for v in views):
            return False
        return self.add(Concat(), [op], [v for v in views if v is not None], op.outputs)

    def softmax(self, op: Op) -> bool:
        view = self.views.get(op.first)
        axis = op["axis"] % len(op.outputs[0].shape)
        is_channels = view is not None and view.buffer.is_map and not view.last and axis == 1
        if view is None or not (is_channels or (len(op.outputs[0].shape) == 2 and axis == 1)):
            return False
        if view.buffer.is_map != (len(op.outputs[0].shape) == 4):
            return False
        return self.add(Softmax(), [op], [view], op.outputs)

    def transposition(self, op: Op) -> bool:
        view, perm = self.views.get(op.first), op["perm"]
        if view is None or not view.buffer.is_map or perm != (_TO_FIRST if view.last else _TO_LAST):
            return False
        return self.alias(op, BufferView(view.buffer, not view.last))

    def reshaping(self, op: Op) -> bool:
        """Reuse the buffer of a value that is only flattened. A custom layer reads the elements in order."""
        view, shape = self.views.get(op.first), op.outputs[0].shape
        if view is None or op.outputs[0] in self.graph.outputs:
            return False
        same = op.op == "Identity" or tuple(shape) == (1, view.buffer.count)
        return same and self.alias(op, view)

    # ---- layers on the CPU

    def custom(self, index: int) -> None:
        """Add a layer on the CPU: a call, or the operators of the same node that follow in the graph."""
        op = self.ops[index]
        if op.domain:
            values = [v for v in op.inputs if v in self.views]
            self.add(Custom(op.body, op), [op], [self.views[v] for v in values], op.outputs)
            return
        ops = [op]
        for other in self.ops[index + 1 :]:
            if other.domain or other.scope != op.scope or other in self.done or other.op in ("Conv", "Gemm"):
                break
            computed = {*self.views, *(v for o in ops for v in o.outputs)}
            if any(v is not None and v.const is None and v not in computed for v in other.inputs):
                break
            ops.append(other)
        read = [v for o in ops for v in o.inputs if v is not None and v in self.views]
        values = list(dict.fromkeys(read))
        outside = {v for o in self.ops if o not in ops for v in o.inputs} | set(self.graph.outputs)
        outputs = [v for o in ops for v in o.outputs if v in outside]
        self.add(Custom(part(ops, values, outputs)), ops, [self.views[v] for v in values], outputs)

    def constant(self, value: Value) -> None:
        """Raise LayerError for a constant output of the network, which no layer of the hardware can compute."""
        raise LayerError(f"output {value.name} is a constant, which no layer of the hardware computes")

    def choose_formats(self, plan: DvPlan) -> None:
        """Store outputs of custom layers and softmax as 16-bit floats if the hardware reads them, else 32-bit."""
        hardware = {
            view.buffer for layer in plan.layers if not isinstance(layer.kind, Custom) for view in layer.inputs
        }
        plan.layers[:] = [one for layer in plan.layers for one in convertible(layer, hardware)]
        for layer in plan.layers:
            if isinstance(layer.kind, (Custom, Softmax)):
                for buffer in layer.outputs:
                    buffer.half = buffer in hardware


def _pooling_window(op: Op) -> Window | None:
    """Return the windows of a pooling of maps without dilation, with the padding that they reach."""
    x, y, window = op.inputs[0], op.outputs[0], window_of(op)
    plain = window is not None and len(window.kernel) == 2 and set(window.dilations) == {1}
    if x is None or window is None or not plain or len(op.outputs) > 1:
        return None
    ends = [
        max(0, (o - 1) * s + k - i - b)
        for o, s, k, i, b in zip(y.shape[2:], window.strides, window.kernel, x.shape[2:], window.begins)
    ]
    return window._replace(ends=ends)
