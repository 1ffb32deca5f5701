"""Arguments, directions, sequence lengths and activations of the recurrent operators."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from anylayer.errors import need, need_shape
from anylayer.graph.operators import GATES
from anylayer.graph.symbolic import is_symbolic
from anylayer.network import Array
from anylayer.ops._spatial import integer
from anylayer.ops.reverse_sequence import reverse_sequence
from anylayer.ops.sigmoid import sigmoid
from anylayer.ops.softplus import softplus
from anylayer.tracing import TracedArray, is_traced, record, record_many
from anylayer.tracing.primitives import cast

Activation = Callable[[Array], Array]
_DIRECTIONS = ("forward", "reverse", "bidirectional")
SATURATED = 1e4
"""An argument at which a sigmoid is 1."""
_ACTIVATIONS: dict[str, Activation] = {
    "Sigmoid": sigmoid,
    "Tanh": np.tanh,
    "Relu": lambda v: np.maximum(v, 0),
    "LeakyRelu": lambda v: np.where(v > 0, v, v * v.dtype.type(0.01)),
    "HardSigmoid": lambda v: np.clip(v * v.dtype.type(0.2) + v.dtype.type(0.5), 0, 1),
    "Elu": lambda v: np.where(v > 0, v, np.expm1(np.minimum(v, 0))),
    "Softsign": lambda v: v / (1 + np.abs(v)),
    "Softplus": softplus,
}
Step = Callable[..., tuple[Array, ...]]
"""A function from (x[t] @ weights.T, *states) to the next states."""
Steps = Callable[[int], tuple[Array, Step]]
"""A function from a direction to its input weights (rows, values) and its step."""


class RecurrentPlan:
    """The checked arguments of a recurrent operator whose weights hold `gates` gates.

    `default` names the activations of one direction. `states` are the initial states, each (D, B, H) or None.
    Raises LayerError for a wrong shape or an unknown activation or direction.
    """

    def __init__(
        self,
        x: Array,
        w: Array,
        r: Array,
        b: Array | None,
        *,
        gates: int,
        hidden_size: int,
        direction: str,
        activations: Sequence[str] | None,
        default: Sequence[str],
        clip: float | None,
        states: Sequence[Array | None],
        sequence_lens: Array | None,
        keep: Array | None = None,
    ) -> None:
        self.hidden = integer(hidden_size, "hidden_size")
        need(len(x.shape) == 3, f"a recurrent input must be (steps, batch, values), got shape {tuple(x.shape)}")
        need(direction in _DIRECTIONS, f"direction must be one of {', '.join(_DIRECTIONS)}, got {direction!r}")
        self.direction, self.x, self.sequence_lens = direction, x, sequence_lens
        self.directions = 2 if direction == "bidirectional" else 1
        self.steps, self.batch, values = x.shape
        rows = gates * self.hidden
        expected = {
            "w": (w, (self.directions, rows, values)),
            "r": (r, (self.directions, rows, self.hidden)),
            "b": (b, (self.directions, 2 * rows)),
            "sequence_lens": (sequence_lens, (self.batch,)),
            "keep": (keep, (self.steps, self.batch)),
            **{
                f"initial state {i}": (s, (self.directions, self.batch, self.hidden)) for i, s in enumerate(states)
            },
        }
        for name, (array, shape) in expected.items():
            if array is not None:
                need_shape(array, shape, name)
        need(
            keep is None or (direction == "forward" and sequence_lens is None),
            f"keep goes with direction 'forward' and without sequence_lens, got direction {direction!r}",
        )
        self.keep = keep
        self.names = list(activations) if activations is not None else list(default) * self.directions
        count = len(default) * self.directions
        need(len(self.names) == count, f"activations must be {count} names, got {len(self.names)}: {self.names}")
        for name in self.names:
            need(name in _ACTIVATIONS, f"activation must be one of {', '.join(_ACTIVATIONS)}, got {name!r}")
        need(clip is None or clip > 0, f"clip must be more than 0, got {clip}")
        self.clip, self._per_direction = clip, len(default)

    @property
    def native(self) -> bool:
        """Whether every engine computes the operator with these activations. OpenVINO supports no others."""
        return GATES.names.issuperset(self.names)

    @property
    def runs_through(self) -> bool:
        """Whether no step but the first changes the state before it."""
        return self.keep is None or (not is_traced(self.keep) and bool((self.keep[1:] == 1).all()))

    @property
    def is_open(self) -> bool:
        """Whether the number of steps is symbolic, so that the steps cannot be recorded one by one."""
        return is_symbolic(self.steps)

    def states_before(self, t: int, states: Sequence[Any]) -> list[Any]:
        """Return the states (..., B, H) before step t, multiplied by keep[t]."""
        if self.keep is None:
            return list(states)
        return [None if s is None else s * self.keep[t][:, None] for s in states]

    def functions(self, direction: int) -> list[Activation]:
        """Return the activations of one direction. Each clips its argument to [-clip, clip] if there is a clip."""
        activations = self.unclipped(direction)
        if self.clip is None:
            return activations
        limit = self.x.dtype.type(self.clip)

        def clipped(f: Activation) -> Activation:
            return lambda v: f(np.clip(v, -limit, limit))

        return list(map(clipped, activations))

    def unclipped(self, direction: int) -> list[Activation]:
        """Return the activations of one direction, without the clip."""
        first = direction * self._per_direction
        return [_ACTIVATIONS[n] for n in self.names[first : first + self._per_direction]]

    def run(self, step: Steps, states: Sequence[Array | None]) -> tuple[Array, ...]:
        """Compute all directions step by step. Return Y (T, D, B, H) and the last states, each (D, B, H).

        `step(d)` returns the input weights (rows, values) of direction d, and a function that maps x[t] @
        weights.T and the states to the next states.
        """
        ragged = self.sequence_lens is not None
        lengths = np.full(self.batch, self.steps) if self.sequence_lens is None else self.sequence_lens
        ys, ends = [], []
        for d in range(self.directions):
            backwards = self.direction == "reverse" or d == 1
            weights, function = step(d)
            x = reverse_sequence(self.x, lengths) if backwards else self.x
            parts = x @ weights.T
            zeros: Array = np.zeros((self.batch, self.hidden), x.dtype)
            now = [zeros if s is None else s[d] for s in states]
            y = []
            for t in range(self.steps):
                new = function(parts[t], *self.states_before(t, now))
                active = (lengths > t)[:, None]
                now = [np.where(active, n, old) for n, old in zip(new, now)] if ragged else list(new)
                y.append(np.where(active, now[0], x.dtype.type(0)) if ragged else now[0])
            ys.append(reverse_sequence(np.stack(y), lengths) if backwards else np.stack(y))
            ends.append(now)
        return np.stack(ys, axis=1), *(np.stack(e) for e in zip(*ends))

    def record(self, op: str, inputs: Sequence[Array | None], outputs: int, **attrs: Any) -> tuple[Array, ...]:
        """Record ONNX operator `op`. Return Y and the last states, `outputs` arrays in total."""
        inputs = list(inputs)
        if inputs[4] is not None:
            inputs[4] = cast(inputs[4], np.int32)
        while inputs[-1] is None:
            inputs.pop()
        if self.directions == 1:
            settings = np.array(repr((op, self.direction, self.names, self.clip, attrs)))
            inputs[0] = _unshared_input(self.x, [settings, *(v for v in inputs[1:] if v is not None)])
        state = (self.directions, self.batch, self.hidden)
        shapes = [(self.steps, *state[:1], *state[1:])] + [state] * (outputs - 1)
        return tuple(
            record_many(
                op,
                inputs,
                [(s, self.x.dtype) for s in shapes],
                hidden_size=self.hidden,
                direction=self.direction,
                activations=self.names,
                clip=None if self.clip is None else float(self.clip),
                **attrs,
            )
        )


def _unshared_input(x: Array, others: Sequence[Array]) -> Array:
    """Return `x` as a value that only the operator with the other inputs `others` reads.

    OpenVINO (2026.4) rewrites the memory layout of the input of a one-directional recurrent operator in place,
    which corrupts the value for every other consumer: of two LSTMs over one input, the first returns wrong
    results. Therefore `x` passes through a Max with a constant near the lowest float, which changes no value in
    practice. The constant is derived from the other inputs, so that two operators do not share the result.
    """
    if not isinstance(x, TracedArray):
        return x
    mark = 0
    for other in others:
        data = other._value.name.encode() if isinstance(other, TracedArray) else np.asarray(other).tobytes()
        mark = zlib.crc32(data, mark)
    least = float(np.finfo(x.dtype).min) * (1 - (mark % 2**20) / 2**23)
    return record("Max", [x, np.array(least, x.dtype)], x.shape, x.dtype)


def kept_or_not_a_number(x: Array, keep: Array) -> Array:
    """Return `x` (T, B, values) with NaN where `keep` (T, B) is neither 0 nor 1: the forms for any number of steps
    multiply the state by no other numbers."""
    return np.where(((keep == 0) | (keep == 1))[:, :, None], x, x.dtype.type(np.nan))


def one_state(
    gates: int, default: Sequence[str], x: Array, w: Array, r: Array, b: Any, lens: Any, h: Any, **how: Any
) -> RecurrentPlan:
    """Return the layer of an operator with one state, h, from the operator's arguments. See RecurrentPlan."""
    return RecurrentPlan(x, w, r, b, gates=gates, default=default, states=[h], sequence_lens=lens, **how)
