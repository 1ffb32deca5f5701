"""Recurrent sections, whose samples are the steps of one sequence: rnn, gru, lstm, crnn and conv_lstm."""

from __future__ import annotations

import math
from functools import partial
from typing import ClassVar

import numpy as np

from anylayer import ops
from anylayer.layer import Array, Enum, attribute, field, layer, need, need_shape
from anylayer.layers._table import define
from anylayer.layers.darknet._base import ACTIVATION, ACTIVATIONS, EPSILON, DarknetLayer
from anylayer.network import Function


class Recurrent(DarknetLayer):
    """A section whose state before the first sample is 0."""

    batch_normalize: bool = attribute("bool", False, doc="whether the result of each product is normalized")

    def setup(self) -> None:
        self.note(
            "its samples are the steps of one sequence, from a state of 0; Darknet keeps it from call to call"
        )

    def products(self, shapes: dict[str, tuple[int, ...]]) -> dict[str, tuple[Array, Array]]:
        """Return the weights and biases of products with their normalization folded into them.

        shapes: the shape of the weights of each product, in the order of the file. The first size is the number of
        results.
        """
        result, first = {}, 0
        for name, shape in shapes.items():
            biases = self.blob(first, shape[:1], what=f"biases of {name}")
            is_kernel = len(shape) == 4  # a kernel is stored after the statistics, and a matrix before them
            last = first + (4 if self.batch_normalize and is_kernel else 1)
            weights = self.blob(last, shape, what=f"weights of {name}")
            if self.batch_normalize:
                scale, mean, variance = self.statistics(first + 2 - is_kernel, shape[0])
                factor = scale / np.sqrt(variance + np.float32(EPSILON))
                weights = (weights.reshape(len(factor), -1) * factor[:, None]).reshape(shape)
                biases = biases - mean * factor
            result[name] = weights, biases
            first += 5 if self.batch_normalize else 2
        return result


class Simple(Recurrent):
    """A section of three products: of the input, of the state, and of their sum, which is the next state."""

    activation: str = attribute(ACTIVATION, "logistic", doc="the function that is applied to each product")
    shortcut: bool = attribute("bool", False, doc="whether the last state is added to the next one")

    def run(self, x: Array, multiply: Function, *shapes: tuple[int, ...], of_state: str = "") -> Array:
        """Return the outputs of all steps. shapes: those of the weights. of_state: the function of U s, or ""."""
        parts = self.products(dict(zip(("the input", "the state", "the output"), shapes)))
        function = ACTIVATIONS[self.activation]
        inputs = function(multiply(x, *parts["the input"]))
        state, states = np.zeros_like(inputs[:1]), []
        for t in range(inputs.shape[0]):
            fresh = inputs[t : t + 1] + ACTIVATIONS[of_state or self.activation](
                multiply(state, *parts["the state"])
            )
            state = state + fresh if self.shortcut else fresh
            states.append(state)
        return function(multiply(np.concatenate(states), *parts["the output"]))


@layer("rnn")
class Rnn(Simple):
    """Compute y = f(V s), with the next state s = f(W x) + f(U s), and + s with `shortcut`.

    (N, ...) to (N, output), for the N steps of a sequence. Each product has biases, and a normalization with
    `batch_normalize`. The file has W, U and V, each as [connected]. In dialect "pjreddie", `hidden` has no effect.
    Source: pjreddie/darknet src/rnn_layer.c (executed); AlexeyAB/darknet src/rnn_layer.c.
    """

    transposes = True
    output: int = field(0, "int32", 1, least=1, doc="number of outputs")
    hidden: int = field(0, "int32", 0, least=0, doc="number of values of the state; 0 for `output`")
    logistic: int = field(0, "int32", 0, least=0, most=2, doc="f of U s: 1 is logistic, 2 loggy")

    def forward(self, x: Array) -> Array:
        flat = x.reshape(x.shape[0], math.prod(x.shape[1:]))
        size = self.output if self.dialect == "pjreddie" else self.hidden or self.output
        shapes = (size, flat.shape[1]), (size, size), (self.output, size)
        return self.run(
            flat, partial(ops.gemm, trans_b=True), *shapes, of_state=("", "logistic", "loggy")[self.logistic]
        )


@layer("crnn", dialects=("pjreddie",))
class Crnn(Simple):
    """Compute y = f(V s), with the next state s = f(W x) + f(U s), by convolutions of size 3 (pjreddie).

    (N, C, H, W) to (N, output_filters, W, H), for the N steps of a sequence: this program reads maps as (N, C, W,
    H). With `shortcut` the last state is added to the next one. The file has W, U and V, each as [convolutional].
    Source: pjreddie/darknet src/crnn_layer.c, src/parser.c parse_crnn (executed).
    """

    output_filters: int = field(0, "int32", 1, least=1, doc="number of output channels")
    hidden_filters: int = field(0, "int32", 1, least=1, doc="number of channels of the state")

    def forward(self, x: Array) -> Array:
        need_shape(x, ("N", "C", "H", "W"), "input 0")
        (n, c, h, w), size, outputs = x.shape, self.hidden_filters, self.output_filters
        shapes = (size, c, 3, 3), (size, size, 3, 3), (outputs, size, 3, 3)
        return self.run(x.reshape(n, c, w, h), partial(ops.conv, pads=1), *shapes)


class Convolutions(Recurrent):
    """A section whose products are convolutions that keep the size of a map."""

    neutral = {"xnor": 0, "stride": 1}
    output: int = field(0, "int32", 1, least=1, doc="number of output channels")
    size: int = field(0, "int32", 3, least=1, doc="height and width of the kernel")
    dilation: int = field(0, "int32", 1, least=1, doc="the step between cells of the kernel")
    pad: int = attribute("int32", 0, doc="whether the padding is size / 2")
    padding: int = field(0, "int32", 0, least=0, doc="the padding at each side, without `pad`")
    groups: int = field(0, "int32", 1, least=1, doc="number of groups of channels")

    def convolution(self, x: Array) -> Function:
        """Return the convolution."""
        need_shape(x, ("N", "C", "H", "W"), "input 0")
        padding = self.size // 2 if self.pad else self.padding
        rule = f"size={self.size} needs a padding of half the kernel, which keeps the size of a map, got {padding}"
        need(2 * padding == self.size - 1, rule)
        return partial(ops.conv, pads=padding * self.dilation, dilations=self.dilation, group=self.groups)

    def kernel(self, filters: int, channels: int) -> tuple[int, ...]:
        """Return the shape of the weights of a convolution."""
        for count in (channels, filters):
            need(count % self.groups == 0, f"groups={self.groups} does not divide {count} channels")
        return filters, channels // self.groups, self.size, self.size


@layer("crnn", dialects=("alexeyab",))
class CrnnOfFork(Convolutions, Simple):
    """Compute y = f(V s), with the next state s = f(W x) + f(U s), by convolutions (AlexeyAB).

    (N, C, H, W) to (N, output, H, W), for the N steps of a sequence. With `shortcut` the last state is added to
    the next one. The file has W, U and V, each as [convolutional].
    Source: AlexeyAB/darknet src/crnn_layer.c, src/parser.c parse_crnn.
    """

    hidden: int = field(0, "int32", 1, least=1, doc="number of channels of the state")

    def forward(self, x: Array) -> Array:
        size, multiply = self.hidden, self.convolution(x)
        sizes = (size, x.shape[1]), (size, size), (self.output, size)
        return self.run(x, multiply, *(self.kernel(*pair) for pair in sizes))


@layer("conv_lstm")
class ConvLstm(Convolutions):
    """Compute a long short-term memory by convolutions, each followed by `activation`.

    (N, C, H, W) to (N, output, H, W), for the N steps of a sequence. The gates i, f, o are logistic of w h + u x,
    and of + v c with `peephole`; g is tanh of w h + u x: c = f * c + i * g, h = o * tanh(c), which is the output.
    With `bottleneck`, m = tanh(w [h, x]) replaces x, and w h is 0; `shortcut` adds the first half of its channels
    to those of the output. The file has v f, i, o, then w f, i, g, o (only f with `bottleneck`), then u f, i, g,
    o, each as [convolutional].
    Source: AlexeyAB/darknet src/conv_lstm_layer.c, src/parser.c parse_conv_lstm.
    """

    ignored = r"time_normalizer"
    activation: str = attribute(ACTIVATION, "linear", doc="the function that is applied to each convolution")
    peephole: bool = attribute("bool", False, doc="whether gates depend on c")
    bottleneck: bool = attribute("bool", False, doc="whether the gates are those of a map of h and x")
    shortcut: bool = attribute("bool", False, doc="with `bottleneck`, what is added to the output")
    state_constrain: int = field(0, "int32", 32, least=0, doc="the limit of c; 0 for none")
    lstm_activation: str = attribute(Enum("tanh"), "tanh", doc="the function of g, c and m")

    def forward(self, x: Array) -> Array:
        multiply, count, channels, narrow = self.convolution(x), self.output, x.shape[1], self.bottleneck
        half = count // 2 if narrow and self.shortcut else 0
        rule = f"bottleneck needs output={channels}, the number of input channels, and an even one, got {count}"
        need(not narrow or (count == channels and count % 2 == 0), rule)
        shapes = {f"v{gate}": self.kernel(count, count) for gate in "fio" if self.peephole}
        shapes |= {f"w{gate}": self.kernel(count, count * (1 + narrow)) for gate in ("f" if narrow else "figo")}
        parts = self.products(shapes | {f"u{gate}": self.kernel(count, channels) for gate in "figo"})

        def product(name: str, value: Array) -> Array:
            return ACTIVATIONS[self.activation](multiply(value, *parts[name])) if name in parts else zero

        zero = np.zeros_like(x[:1, :1])
        h = c = zero.repeat(count, axis=1)
        outputs = []
        for t in range(x.shape[0]):
            step: Array = x[t : t + 1]
            if narrow:
                step = np.tanh(product("wf", np.concatenate([h, step], axis=1)))
            of_h = [zero] * 4 if narrow else [product(f"w{gate}", h) for gate in "figo"]
            f, i, g, o = (part + product(f"u{gate}", step) for part, gate in zip(of_h, "figo"))
            c = ops.sigmoid(f + product("vf", c)) * c + ops.sigmoid(i + product("vi", c)) * np.tanh(g)
            h = ops.sigmoid(o + product("vo", c)) * np.tanh(c)
            if self.state_constrain:
                c = np.clip(c, np.float32(-self.state_constrain), np.float32(self.state_constrain))
            outputs.append(np.concatenate([h[:, :half] + step[:, :half], h[:, half:]], axis=1) if half else h)
        return np.concatenate(outputs)


class Gates(Recurrent):
    """A section of products w of the state and u of the input, one of each for each gate."""

    transposes = True
    order: ClassVar[str] = ""
    """The products in the order of the file."""
    output: int = field(0, "int32", 1, least=1, doc="number of outputs")

    def sequence(self, x: Array, gates: str) -> tuple[Array, ...]:
        """Return the input (N, 1, values), and the weights of u and w and their biases, as ONNX's operators do."""
        flat = x.reshape(x.shape[0], 1, math.prod(x.shape[1:]))
        sizes = {"u": flat.shape[2], "w": self.output}
        parts = self.products({name: (self.output, sizes[name[0]]) for name in self.order.split()})
        u, w = ([parts[kind + gate] for gate in gates] for kind in "uw")
        weights = (np.concatenate([matrix for matrix, _ in pairs])[None] for pairs in (u, w))
        return flat, *weights, np.concatenate([biases for _, biases in (*u, *w)])[None]


class Lstm(Gates):
    """A long short-term memory."""

    def forward(self, x: Array) -> Array:
        y: Array = ops.lstm(*self.sequence(x, "iofg"), hidden_size=self.output)[0]
        return y.reshape(x.shape[0], self.output)


class Gru(Gates):
    """A gated recurrent unit."""

    tanh: bool = False

    def forward(self, x: Array) -> Array:
        functions = ["Sigmoid", "Tanh" if self.tanh else "Sigmoid"]
        y: Array = ops.gru(*self.sequence(x, "zrh"), hidden_size=self.output, activations=functions)[0]
        return y.reshape(x.shape[0], self.output)


_STEPS = "(N, ...) to (N, output), for the N steps of a sequence."
_LSTM = f"""{_STEPS} The gates i, f, o are logistic of w h + u x, and g is tanh
    of it: c = f * c + i * g, h = o * tanh(c), which is the output. The file has {{}}, each as [connected].
    Source: {{}}/darknet src/lstm_layer.c, src/parser.c."""
_GRU = f"""{_STEPS} z and r are logistic of w h + u x; n is logistic, or tanh
    with `tanh`, of w (r * h) + u x; the output is h = z * h + (1 - z) * n. The file has {{}}, each as [connected].
    Source: {{}}/darknet src/gru_layer.c, src/parser.c."""
_TANH = {"tanh": attribute("bool", False, doc="whether n is tanh")}
for _type, _base, _details, _program, _order, _fields in (
    ("lstm", Lstm, _LSTM, "pjreddie", "wi wf wo wg ui uf uo ug", {}),
    ("lstm", Lstm, _LSTM, "AlexeyAB", "wf wi wg wo uf ui ug uo", {}),
    ("gru", Gru, _GRU, "pjreddie", "wz wr wh uz ur uh", _TANH),
    ("gru", Gru, _GRU, "AlexeyAB", "uz ur uh wz wr wh", {}),
):
    _summary = f"Compute a {_type.upper()} with {_program}'s order of weights."
    _text, _dialects = _details.format(_order, _program), (_program.lower(),)
    define(_type, _base, _summary, _text, dialects=_dialects, order=_order, **_fields)
