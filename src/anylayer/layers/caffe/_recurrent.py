"""What the recurrent layers share: their fields, and the order of their inputs and outputs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from anylayer.errors import plural
from anylayer.layer import Layer, field, need, samples
from anylayer.layers.caffe._messages import FillerParameter
from anylayer.network import Array
from anylayer.tracing import is_traced


class RecurrentLayer(Layer):
    """RecurrentLayer of Caffe (src/caffe/layers/recurrent_layer.cpp).

    Inputs: x (T, N, ...), cont (T, N), optionally a static input (N, ...), and the initial state with
    `expose_hidden`. The state before step t is multiplied by cont[t]: 0 begins a sequence, 1 continues it.
    """

    message = "recurrent_param"
    numbers: ClassVar = {"": 146}
    samples: ClassVar = {1: samples.indicators}
    states: ClassVar[int] = 1
    """The number of arrays that form the state."""

    num_output: int = field(1, "uint32", 0, doc="size of the state and of the output; at least 1")
    weight_filler: FillerParameter = field(2, FillerParameter, doc="filler of the weights")
    bias_filler: FillerParameter = field(3, FillerParameter, doc="filler of the biases")
    debug_info: bool = field(4, "bool", False, doc="log the unrolled network; not used here")
    expose_hidden: bool = field(5, "bool", False, doc="take the initial state as inputs and return the last state")

    def setup(self) -> None:
        need(self.num_output > 0, f"num_output must be at least 1, got {self.num_output}")
        count = 1 + self.states * self.expose_hidden
        need(
            self.outputs == count,
            f"has {plural(count, 'output')} with expose_hidden: {str(self.expose_hidden).lower()}, "
            f"got {self.outputs}",
        )

    def split(self, inputs: Sequence[Any]) -> tuple[Any, Any, Any, list[Any]]:
        """Return x (T, N, I), cont (T, N, 1), the static input (N, S) or None, and the initial state (N, D)."""
        states = self.states * self.expose_hidden
        need(
            len(inputs) - states in (2, 3),
            f"takes {2 + states} or {3 + states} inputs (x, cont, a static input{', the state' * bool(states)}), "
            f"got {len(inputs)}",
        )
        x, cont = inputs[:2]
        need(len(x.shape) >= 2, f"x must be of shape (T, N, ...), got {tuple(x.shape)}")
        t, n = x.shape[:2]
        need(tuple(cont.shape) == (t, n), f"cont must be of shape ({t}, {n}), got {tuple(cont.shape)}")
        static = inputs[2] if len(inputs) - states == 3 else None
        if static is not None:
            need(static.shape[0] == n, f"the static input must be of shape ({n}, ...), got {tuple(static.shape)}")
            static = static.reshape(n, -1)
        return x.reshape(t, n, -1), cont[:, :, None], static, self.first(inputs[len(inputs) - states :], n)

    def first(self, states: Sequence[Any], n: int) -> list[Array]:
        """Return the state before the first step, each array (N, D)."""
        d = self.num_output
        if not states:
            self.note("each call starts with a zero state, whereas Caffe keeps the state between calls")
            return [np.zeros((n, d), np.float32) for _ in range(self.states)]
        for state in states:
            need(
                tuple(state.shape) == (1, n, d),
                f"the initial state must be of shape (1, {n}, {d}), got {tuple(state.shape)}",
            )
        return [state[0] for state in states]

    def in_one_run(self, cont: Array) -> bool:
        """Return whether `cont` is a constant that continues every sequence to the last step."""
        return not is_traced(cont) and bool((cont[1:] == 1).all())

    def with_resets(self, x: Any, cont: Any) -> tuple[Any, Any]:
        """Return `x` (T, N, I) with NaN where `cont` is neither 0 nor 1, and where `cont` is 0, as (T, N).

        Operators for any number of steps do not multiply the state by other numbers.
        """
        self.note("with an open number of steps, cont must be 0 or 1; other values give NaN")
        starts = cont == 0
        return np.where(starts | (cont == 1), x, np.float32(np.nan)), starts[:, :, 0]

    @staticmethod
    def with_static(x: Array, w: Array, static: Array | None, s: Array | None) -> tuple[Array, Array]:
        """Return `x` with the static input added to every step, and `w` with its weights as further rows."""
        if static is None:
            return x, w
        every = np.broadcast_to(static, (x.shape[0], *static.shape))
        return np.concatenate([x, every], axis=2), np.concatenate([w, s])

    @staticmethod
    def plus_static(steps: Array, static: Array | None, s: Array | None) -> Array:
        """Return `steps` (T, N, ...) plus the contribution of the static input to every step."""
        return steps if static is None else steps + static @ s

    def weights(self, index: int, rows: int, columns: int, what: str) -> Array:
        """Return weight `index` of shape (rows, columns), transposed for x @ w."""
        return self.blob(index, (rows, columns), self.weight_filler, what=what).T

    def bias(self, index: int, rows: int, what: str) -> Array:
        """Return bias `index` of shape (rows,)."""
        return self.blob(index, (rows,), self.bias_filler, what=what)
