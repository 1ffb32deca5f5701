"""LSTM blocks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from anylayer import ops
from anylayer.layers.tensorflow._base import Operation, attribute, layer, need, single

_RESULTS = ("i", "cs", "f", "o", "ci", "co", "h")


class _Block(Operation):
    """One step: gates of [x, h] @ w + b; i, f and o look at the cell through the peepholes wci, wcf, wco; the new
    cell is ci * i + cell * f, held within cell_clip where that is positive (core/kernels/rnn/lstm_ops.h)."""

    use_peephole: bool = attribute("bool", False)
    order = "icfo"
    cell_clip: float

    @classmethod
    def results(cls, attr: Mapping[str, Any]) -> Sequence[tuple[str, int]]:
        return [(name, 1) for name in _RESULTS]

    def step(
        self, x: Any, cell: Any, h: Any, w: Any, b: Any, peepholes: Sequence[Any], forget: float
    ) -> list[Any]:
        """i, cs, f, o, ci, co, h of one step."""
        size = cell.shape[-1]
        need(
            tuple(w.shape) == (x.shape[-1] + size, 4 * size) and tuple(b.shape) == (4 * size,),
            f"w and b must be of shapes {(x.shape[-1] + size, 4 * size)} and {(4 * size,)}, got {tuple(w.shape)} "
            f"and {tuple(b.shape)}",
        )
        gates = np.concatenate([x, h], axis=-1) @ w + b
        parts = {name: gates[:, k * size : (k + 1) * size] for k, name in enumerate(self.order)}
        wci, wcf, wco = peepholes if self.use_peephole else (0, 0, 0)
        i = ops.sigmoid(parts["i"] + cell * wci if self.use_peephole else parts["i"])
        f_sum = parts["f"] + np.float32(forget)
        f = ops.sigmoid(f_sum + cell * wcf if self.use_peephole else f_sum)
        ci = np.tanh(parts["c"])
        new = ci * i + cell * f
        if self.cell_clip > 0:
            new = np.clip(new, -self.cell_clip, self.cell_clip)
        o = ops.sigmoid(parts["o"] + new * wco if self.use_peephole else parts["o"])
        co = np.tanh(new)
        return [i, new, f, o, ci, co, co * o]


@layer("LSTMBlockCell")
class LSTMBlockCell(_Block):
    """One step of an LSTM."""

    forget_bias: float = attribute("float", 1.0)
    cell_clip: float = attribute("float", 3.0)

    def forward(self, x: Any, cell: Any, h: Any, w: Any, wci: Any, wcf: Any, wco: Any, b: Any) -> Any:
        return self.step(x, cell, h, w, b, (wci, wcf, wco), self.forget_bias)


class _Sequence(_Block):
    forget = 0.0

    def forward(self, length: Any, x: Any, cell: Any, h: Any, w: Any, wci: Any, wcf: Any, wco: Any, b: Any) -> Any:
        need(len(x.shape) == 3, f"x must be of shape (steps, batch, values), got {tuple(x.shape)}")
        count = single(length, "seq_len_max")
        need(0 <= count <= x.shape[0], f"seq_len_max={count} is not among the {x.shape[0]} steps")
        w, wci, wcf, wco, b = (v.astype(np.float32) for v in (w, wci, wcf, wco, b))
        steps = []
        for t in range(count):
            steps.append(self.step(x[t], cell, h, w, b, (wci, wcf, wco), self.forget))
            cell, h = steps[-1][1], steps[-1][6]
        empty = np.zeros((1, x.shape[1], w.shape[1] // 4), np.float32)
        rest = [np.repeat(empty, x.shape[0] - count, axis=0)] if count < x.shape[0] else []
        if not steps:
            return [rest[0] if rest else empty[:0]] * len(_RESULTS)
        return [np.concatenate([np.stack([s[k] for s in steps]), *rest]) for k in range(len(_RESULTS))]


@layer("BlockLSTM")
class BlockLSTM(_Sequence):
    """An LSTM over a sequence (steps, batch, values): gates i, c, f, o; forget_bias is added to f."""

    forget_bias: float = attribute("float", 1.0)
    cell_clip: float = attribute("float", 3.0)

    def setup(self) -> None:
        self.forget = self.forget_bias


@layer("BlockLSTMV2")
class BlockLSTMV2(_Sequence):
    """An LSTM over a sequence (steps, batch, values): gates i, f, c, o; no bias is added."""

    order = "ifco"
    cell_clip: float = attribute("float", 0.0)
