"""LSTM, GRU, SimpleRNN, and the CuDNN variants of Keras 2."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ClassVar

import numpy as np

from anylayer import ops
from anylayer.layer import layer, need
from anylayer.layer.fields import attribute
from anylayer.layers.keras._activations import activation
from anylayer.layers.keras._state import StateLayer
from anylayer.network import Array

_NATIVE = {"sigmoid": "Sigmoid", "tanh": "Tanh", "relu": "Relu"}
"""Activations that every engine's recurrent operators compute."""


class SequenceLayer(StateLayer):
    """A layer that runs through a sequence (N, T, C) with a state.

    Inputs: the sequence; the arrays of the initial state when the call gives them; a mask (N, T) when there is
    one. A masked step leaves the state unchanged.
    """

    gates: ClassVar[int] = 1
    states: ClassVar[int] = 1
    harmless = frozenset({"unroll", "unit_forget_bias", "dropout", "recurrent_dropout", "cell"})
    masks = "takes"
    called_with = frozenset({"initial_state", "mask"})

    units: int = attribute("int64", doc="size of the state and of the output")
    use_bias: bool = attribute("bool", True, doc="whether a bias is added")
    time_major: bool = attribute("bool", False, doc="whether the sequence is (T, N, C)")
    zero_output_for_mask: bool = attribute("bool", False, doc="whether the output of masked steps is zero")

    def forward(self, *inputs: Array) -> list[Array]:
        """Return the output, then the arrays of the last state when return_state is set."""
        args, kwargs = self.arguments(inputs)
        initial = kwargs.get("initial_state", args[1:])
        initial = initial if isinstance(initial, list) else [initial]
        outputs = self.run(args[0], initial, kwargs.get("mask"))
        return outputs[: self.outputs]

    def run(self, x: Array, initial: Sequence[Any], mask: Array | None = None) -> list[Array]:
        """Return the output and the last state of the sequence `x` (N, T, C), from the initial state `initial`."""
        need(len(x.shape) == 3, f"takes a sequence of rank 3, got {tuple(x.shape)}")
        need(
            len(initial) in (0, self.states), f"the initial state must be {self.states} arrays, got {len(initial)}"
        )
        self.note_state()
        x = x if self.time_major else x.transpose(1, 0, 2)
        x = x[::-1] if self.go_backwards else x
        first = list(initial) or [np.zeros((x.shape[1], self.units), np.float32) for _ in range(self.states)]
        if mask is not None:
            mask = mask if self.time_major else mask.transpose(1, 0)
            mask = mask[::-1] if self.go_backwards else mask
        if mask is None and self.native:
            steps, last = self.operator(x, first)
        else:
            steps, last = self.run_stepwise(x, first, mask)
        every = steps if self.time_major else steps.transpose(1, 0, 2)
        if self.return_sequences:
            output = every
        else:
            output = steps[-1] if mask is None or self.zero_output_for_mask else last[0]
        return [output, *(last if self.return_state else ())]

    @property
    def names(self) -> list[Any]:
        """Return the activations of the operator, in its order."""
        return [self.recurrent_activation, self.activation]

    @property
    def native(self) -> bool:
        """Return whether the recurrent operator of ONNX has these activations."""
        return all(isinstance(name, str) and name in _NATIVE for name in self.names)

    def onnx_names(self) -> list[str]:
        """Return the ONNX names of the activations."""
        return [_NATIVE[name] for name in self.names]

    def functions(self) -> tuple[Callable[..., Any], Callable[..., Any]]:
        """Return the activation function, and that of the gates."""
        return activation(self.activation, self.dialect), activation(self.recurrent_activation, self.dialect)

    def kernels(self, channels: int) -> tuple[Array, Array]:
        """Return the kernel (channels, gates * units) and the recurrent kernel (units, gates * units)."""
        wide = self.gates * self.units
        return (
            self.blob(0, (channels, wide), what="kernel"),
            self.blob(1, (self.units, wide), what="recurrent kernel"),
        )

    def bias(self) -> Array:
        """Return the bias (gates * units,), which is zero when the layer has none."""
        wide = self.gates * self.units
        return self.blob(2, (wide,), what="bias") if self.use_bias else np.zeros(wide, np.float32)

    def operator(self, x: Any, first: list[Any]) -> tuple[Any, list[Any]]:
        """Return all steps (T, N, units) and the last state, computed by one operator."""
        raise NotImplementedError

    def stepper(self, channels: int) -> Callable[..., list[Any]]:
        """Return a function from (x (N, C), *state) to the next state, whose first array is the output."""
        raise NotImplementedError

    def run_stepwise(self, x: Array, first: list[Any], mask: Array | None) -> tuple[Any, list[Any]]:
        """Return all steps (T, N, units) and the last state, computed step by step."""
        step = self.stepper(x.shape[2])
        state, outputs = list(first), []
        output: Any = np.zeros((x.shape[1], self.units), np.float32)
        for t in range(x.shape[0]):
            new = step(x[t], *state)
            if mask is None:
                state, output = new, new[0]
            else:
                is_real = mask[t][:, None]
                other = np.zeros_like(new[0]) if self.zero_output_for_mask else output
                output = np.where(is_real, new[0], other)
                state = [np.where(is_real, n, old) for n, old in zip(new, state)]
            outputs.append(output)
        return np.stack(outputs), state


@layer("LSTM")
class LSTM(SequenceLayer):
    """Compute a long short-term memory over a sequence.

    (N, T, C) to (N, units), or (N, T, units) with return_sequences; with return_state also the last state.

        i, f, g, o = split(x @ kernel + h @ recurrent_kernel + bias)
        c = sigmoid(f) * c + sigmoid(i) * tanh(g)
        h = sigmoid(o) * tanh(c)

    sigmoid and tanh stand for recurrent_activation and activation. The state is h and c, each (N, units).
    Weights: kernel (C, 4 units), recurrent kernel (units, 4 units), bias (4 units,), for the gates i, f, g, o.
    Source: keras/src/layers/rnn/lstm.py.
    """

    gates = 4
    states = 2

    @property
    def names(self) -> list[Any]:
        return [self.recurrent_activation, self.activation, self.activation]

    def operator(self, x: Array, first: list[Any]) -> tuple[Any, list[Any]]:
        order = np.arange(4 * self.units).reshape(4, -1)[[0, 3, 1, 2]].reshape(-1)
        w, r = self.kernels(x.shape[2])
        b = self.bias()[order]
        steps, h, c = ops.lstm(
            x,
            np.ascontiguousarray(w.T[order])[None],
            np.ascontiguousarray(r.T[order])[None],
            np.concatenate([b, np.zeros_like(b)])[None],
            initial_h=first[0][None],
            initial_c=first[1][None],
            hidden_size=self.units,
            activations=self.onnx_names(),
        )
        return steps[:, 0], [h[0], c[0]]

    def stepper(self, channels: int) -> Callable[..., list[Any]]:
        w, r = self.kernels(channels)
        b, (f, g) = self.bias(), self.functions()

        def step(x: Array, h: Array, c: Array) -> list[Array]:
            i, forget, new, o = np.split(x @ w + h @ r + b, 4, axis=1)
            c = g(forget) * c + g(i) * f(new)
            return [g(o) * f(c), c]

        return step


@layer("GRU")
class GRU(SequenceLayer):
    """Compute a gated recurrent unit over a sequence.

    (N, T, C) to (N, units), or (N, T, units) with return_sequences; with return_state also the last state.

        z = sigmoid(x @ w_z + h @ u_z)
        r = sigmoid(x @ w_r + h @ u_r)
        new = tanh(x @ w_h + r * (h @ u_h)) with reset_after, else tanh(x @ w_h + (r * h) @ u_h)
        h = z * h + (1 - z) * new

    sigmoid and tanh stand for recurrent_activation and activation. The state is h (N, units).
    Weights: kernel (C, 3 units), recurrent kernel (units, 3 units), bias (3 units,), or with reset_after (2, 3
    units) for the input and the state, for the gates z, r, h.
    Source: keras/src/layers/rnn/gru.py.
    """

    gates = 3
    reset_after: bool = attribute(
        "bool", True, doc="whether the reset gate is applied after the product with the recurrent kernel"
    )

    def biases(self) -> Array:
        """Return the biases of the input and of the state: (2, 3 units)."""
        wide = 3 * self.units
        if not self.use_bias:
            return np.zeros((2, wide), np.float32)
        if self.reset_after:
            return self.blob(2, (2, wide), what="bias")
        return np.stack([self.bias(), np.zeros(wide, np.float32)])

    def operator(self, x: Array, first: list[Any]) -> tuple[Any, list[Any]]:
        w, r = self.kernels(x.shape[2])
        steps, h = ops.gru(
            x,
            np.ascontiguousarray(w.T)[None],
            np.ascontiguousarray(r.T)[None],
            self.biases().reshape(1, -1),
            initial_h=first[0][None],
            hidden_size=self.units,
            activations=self.onnx_names(),
            linear_before_reset=self.reset_after,
        )
        return steps[:, 0], [h[0]]

    def stepper(self, channels: int) -> Callable[..., list[Any]]:
        w, r = self.kernels(channels)
        (of_x, of_h), (f, g), n = self.biases(), self.functions(), self.units

        def step(x: Array, h: Array) -> list[Array]:
            xz, xr, xh = np.split(x @ w + of_x, 3, axis=1)
            gates = h @ r[:, : 2 * n] + of_h[: 2 * n]
            z, reset = g(xz + gates[:, :n]), g(xr + gates[:, n:])
            if self.reset_after:
                new = f(xh + reset * (h @ r[:, 2 * n :] + of_h[2 * n :]))
            else:
                new = f(xh + (reset * h) @ r[:, 2 * n :])
            return [z * h + (np.float32(1) - z) * new]

        return step


@layer("SimpleRNN")
class SimpleRNN(SequenceLayer):
    """Compute h = activation(x @ kernel + h @ recurrent_kernel + bias) over a sequence.

    (N, T, C) to (N, units), or (N, T, units) with return_sequences; with return_state also the last state.
    Weights: kernel (C, units), recurrent kernel (units, units), bias (units,).
    Source: keras/src/layers/rnn/simple_rnn.py.
    """

    @property
    def names(self) -> list[Any]:
        return [self.activation]

    def operator(self, x: Array, first: list[Any]) -> tuple[Any, list[Any]]:
        w, r = self.kernels(x.shape[2])
        b = self.bias()
        steps, h = ops.rnn(
            x,
            np.ascontiguousarray(w.T)[None],
            np.ascontiguousarray(r.T)[None],
            np.concatenate([b, np.zeros_like(b)])[None],
            initial_h=first[0][None],
            hidden_size=self.units,
            activations=self.onnx_names(),
        )
        return steps[:, 0], [h[0]]

    def stepper(self, channels: int) -> Callable[..., list[Any]]:
        w, r = self.kernels(channels)
        b, (f, _) = self.bias(), self.functions()
        return lambda x, h: [f(x @ w + h @ r + b)]


@layer("CuDNNLSTM")
class CuDNNLSTM(LSTM):
    """Compute an LSTM as CUDA's library does: its bias (8 units,) consists of two halves that are added.

    (N, T, C) to (N, units), or (N, T, units) with return_sequences; with return_state also the last state.
    Weights: kernel and recurrent kernel of LSTM, bias (8 units,). Source: keras.layers.CuDNNLSTM of Keras 2.
    """

    def bias(self) -> Array:
        return np.asarray(self.blob(2, (8 * self.units,), what="bias").reshape(2, -1).sum(axis=0))


@layer("CuDNNGRU")
class CuDNNGRU(GRU):
    """Compute a GRU with reset_after as CUDA's library does: its bias is (6 units,).

    (N, T, C) to (N, units), or (N, T, units) with return_sequences; with return_state also the last state.
    Weights: kernel and recurrent kernel of GRU, bias (6 units,) for the input and the state. Source:
    keras.layers.CuDNNGRU of Keras 2.
    """

    def biases(self) -> Array:
        return self.blob(2, (6 * self.units,), what="bias").reshape(2, -1)

    def setup(self) -> None:
        self.reset_after = True
