"""What the recurrent operators share: arguments, directions, sequence lengths, activations."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from anylayer.errors import need
from anylayer.ops._spatial import whole
from anylayer.ops.reverse_sequence import reverse_sequence
from anylayer.ops.sigmoid import sigmoid
from anylayer.ops.softplus import softplus
from anylayer.tracing import TracedArray, record, record_many
from anylayer.tracing.primitives import cast

_DIRECTIONS = ("forward", "reverse", "bidirectional")
_ACTIVATIONS: dict[str, Callable[[Any], Any]] = {
    "Sigmoid": sigmoid,
    "Tanh": np.tanh,
    "Relu": lambda v: np.maximum(v, 0),
    "LeakyRelu": lambda v: np.where(v > 0, v, v * v.dtype.type(0.01)),
    "HardSigmoid": lambda v: np.clip(v * v.dtype.type(0.2) + v.dtype.type(0.5), 0, 1),
    "Elu": lambda v: np.where(v > 0, v, np.expm1(np.minimum(v, 0))),
    "Softsign": lambda v: v / (1 + np.abs(v)),
    "Softplus": softplus,
}
Step = Callable[..., tuple[Any, ...]]


class Recurrent:
    """The checked arguments of one recurrent operator with `gates` gates."""

    def __init__(
        self,
        x: Any,
        w: Any,
        r: Any,
        b: Any,
        *,
        gates: int,
        hidden_size: int,
        direction: str,
        activations: Sequence[str] | None,
        default: Sequence[str],
        clip: float | None,
        states: Sequence[Any],
        sequence_lens: Any,
    ) -> None:
        self.hidden = whole(hidden_size, "hidden_size")
        need(len(x.shape) == 3, f"a recurrent input must be (steps, batch, values), got shape {tuple(x.shape)}")
        need(direction in _DIRECTIONS, f"direction must be one of {', '.join(_DIRECTIONS)}, got {direction!r}")
        self.direction, self.x, self.sequence_lens = direction, x, sequence_lens
        self.ragged = sequence_lens is not None
        self.directions = 2 if direction == "bidirectional" else 1
        self.steps, self.batch, values = x.shape
        rows = gates * self.hidden
        expected = {
            "w": (w, (self.directions, rows, values)),
            "r": (r, (self.directions, rows, self.hidden)),
            "b": (b, (self.directions, 2 * rows)),
            "sequence_lens": (sequence_lens, (self.batch,)),
            **{
                f"initial state {i}": (s, (self.directions, self.batch, self.hidden)) for i, s in enumerate(states)
            },
        }
        for name, (array, shape) in expected.items():
            need(
                array is None or tuple(array.shape) == shape,
                f"{name} must be of shape {shape}, got {None if array is None else tuple(array.shape)}",
            )
        self.names = list(activations) if activations is not None else list(default) * self.directions
        count = len(default) * self.directions
        need(len(self.names) == count, f"activations must be {count} names, got {len(self.names)}: {self.names}")
        for name in self.names:
            need(name in _ACTIVATIONS, f"activation must be one of {', '.join(_ACTIVATIONS)}, got {name!r}")
        need(clip is None or clip > 0, f"clip must be more than 0, got {clip}")
        self.clip, self._per_direction = clip, len(default)

    @property
    def native(self) -> bool:
        """Whether every engine computes the operator with these activations (OpenVINO knows no others)."""
        return set(self.names) <= {"Sigmoid", "Tanh", "Relu"}

    def functions(self, direction: int) -> list[Callable[[Any], Any]]:
        """The activations of one direction, each behind the clip."""
        plain = self.unclipped(direction)
        if self.clip is None:
            return plain
        limit = self.x.dtype.type(self.clip)

        def clipped(f: Callable[[Any], Any]) -> Callable[[Any], Any]:
            return lambda v: f(np.clip(v, -limit, limit))

        return list(map(clipped, plain))

    def unclipped(self, direction: int) -> list[Callable[[Any], Any]]:
        """The activations of one direction."""
        first = direction * self._per_direction
        return [_ACTIVATIONS[n] for n in self.names[first : first + self._per_direction]]

    def run(self, step: Callable[[int], tuple[Any, Step]], states: Sequence[Any]) -> tuple[Any, ...]:
        """Run every direction: `step(d)` gives the weights (rows, values) of direction d and the function from
        (x @ weights.T of one step, *states) to the next states. Returns Y and the last states."""
        lengths = self.sequence_lens if self.ragged else np.full(self.batch, self.steps)
        ys, ends = [], []
        for d in range(self.directions):
            backwards = self.direction == "reverse" or d == 1
            weights, function = step(d)
            x = reverse_sequence(self.x, lengths) if backwards else self.x
            parts = x @ weights.T
            empty = np.zeros((self.batch, self.hidden), x.dtype)
            now = [empty if s is None else s[d] for s in states]
            y = []
            for t in range(self.steps):
                new = function(parts[t], *now)
                active = (lengths > t)[:, None]
                now = [np.where(active, n, old) for n, old in zip(new, now)] if self.ragged else list(new)
                y.append(np.where(active, now[0], x.dtype.type(0)) if self.ragged else now[0])
            ys.append(reverse_sequence(np.stack(y), lengths) if backwards else np.stack(y))
            ends.append(now)
        return np.stack(ys, axis=1), *(np.stack(e) for e in zip(*ends))

    def record(self, op: str, inputs: Sequence[Any], outputs: int, **attrs: Any) -> tuple[Any, ...]:
        """Record the operator: Y and `outputs` - 1 last states."""
        inputs = list(inputs)
        if inputs[4] is not None:
            inputs[4] = cast(inputs[4], np.int32)
        while inputs[-1] is None:
            inputs.pop()
        if self.directions == 1:
            how = np.array(repr((op, self.direction, self.names, self.clip, attrs)))
            inputs[0] = _own(self.x, [how, *(v for v in inputs[1:] if v is not None)])
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


def _own(x: Any, others: Sequence[Any]) -> Any:
    """`x` as a value that no operator but the one with the inputs `others` reads.

    OpenVINO (2026.4) re-lays the input of a recurrent operator of one direction in place and corrupts whatever
    else reads it: of two LSTMs over one input the first comes out wrong. So x is held above a number near the
    lowest float, which changes no value in use; the number is told by the other inputs.
    """
    if not isinstance(x, TracedArray):
        return x
    mark = 0
    for other in others:
        known = other._value.name.encode() if isinstance(other, TracedArray) else np.asarray(other).tobytes()
        mark = zlib.crc32(known, mark)
    least = float(np.finfo(x.dtype).min) * (1 - (mark % 2**20) / 2**23)
    return record("Max", [x, np.array(least, x.dtype)], x.shape, x.dtype)
