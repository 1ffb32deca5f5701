"""LSTM blocks: single steps and whole sequences."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from anylayer import ops
from anylayer.layer import Array, attribute, layer, need
from anylayer.layer.arguments import integer
from anylayer.layers.tensorflow._base import TensorFlowLayer, results

_RESULTS = ("i", "cs", "f", "o", "ci", "co", "h")


class _BlockSteps(TensorFlowLayer):
    """An LSTM with peepholes: gates = concat(x, h) @ w + b, of which i, f and o also see the cell.

        i  = sigmoid(gate_i + cell * wci)
        f  = sigmoid(gate_f + cell * wcf + forget_bias)
        ci = tanh(gate_c)
        cs = ci * i + cell * f, clipped to -cell_clip..cell_clip where cell_clip > 0
        o  = sigmoid(gate_o + cs * wco)
        co = tanh(cs);  h = co * o

    x is (batch, inputs), cell and h are (batch, units), w is (inputs + units, 4 * units), b is (4 * units,). The
    terms with wci, wcf and wco apply with use_peephole only. `order` is the order of the gates in w and b.
    Source: tensorflow/core/kernels/rnn/lstm_ops.h.
    """

    use_peephole: bool = attribute("bool", False)
    order = "icfo"
    cell_clip: float
    results = results(*_RESULTS)

    def step(
        self, x: Array, cell: Array, h: Array, w: Array, b: Array, peepholes: Sequence[Any], forget: float
    ) -> list[Array]:
        """Return i, cs, f, o, ci, co and h of one step, each (batch, units)."""
        size = cell.shape[-1]
        need(
            tuple(w.shape) == (x.shape[-1] + size, 4 * size) and tuple(b.shape) == (4 * size,),
            f"w and b must have shapes {(x.shape[-1] + size, 4 * size)} and {(4 * size,)}, got {tuple(w.shape)} "
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
class LSTMBlockCell(_BlockSteps):
    """Compute one step of an LSTM with optional peepholes.

    Inputs: x (batch, inputs), cs_prev and h_prev (batch, units), w (inputs + units, 4 * units), wci, wcf and wco
    (units,), b (4 * units,). Outputs: i, cs, f, o, ci, co, h, each (batch, units). The gates in w are in the order
    i, c, f, o. forget_bias is added to the forget gate; cell_clip > 0 limits the cell.
    Source: tf.raw_ops.LSTMBlockCell; tensorflow/core/kernels/rnn/lstm_ops.h.
    """

    forget_bias: float = attribute("float", 1.0)
    cell_clip: float = attribute("float", 3.0)

    def forward(
        self, x: Array, cell: Array, h: Array, w: Array, wci: Array, wcf: Array, wco: Array, b: Array
    ) -> list[Array]:
        return self.step(x, cell, h, w, b, (wci, wcf, wco), self.forget_bias)


class _Sequence(_BlockSteps):
    """An LSTM over a sequence x (steps, batch, inputs), of which the first `seq_len_max` steps are computed.

    Each of the seven outputs (i, cs, f, o, ci, co, h) is (steps, batch, units). The steps after seq_len_max are
    zeros.
    """

    forget = 0.0

    def forward(
        self,
        length: Array,
        x: Array,
        cell: Array,
        h: Array,
        w: Array,
        wci: Array,
        wcf: Array,
        wco: Array,
        b: Array,
    ) -> list[Array]:
        need(len(x.shape) == 3, f"x must have shape (steps, batch, inputs), got {tuple(x.shape)}")
        count = integer(length, "seq_len_max")
        need(
            0 <= count <= x.shape[0], f"seq_len_max must lie in 0..{x.shape[0]}, the number of steps, got {count}"
        )
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
    """Compute an LSTM over a sequence (steps, batch, inputs), with a bias of the forget gate.

    Inputs: seq_len_max, a constant; x; then those of LSTMBlockCell. Outputs: i, cs, f, o, ci, co, h, each
    (steps, batch, units). The gates in w are in the order i, c, f, o.
    Source: tf.raw_ops.BlockLSTM; tensorflow/core/kernels/rnn/lstm_ops.h.
    """

    forget_bias: float = attribute("float", 1.0)
    cell_clip: float = attribute("float", 3.0)

    def setup(self) -> None:
        self.forget = self.forget_bias


@layer("BlockLSTMV2")
class BlockLSTMV2(_Sequence):
    """Compute an LSTM over a sequence (steps, batch, inputs), without a bias of the forget gate.

    As BlockLSTM, but the gates in w are in the order i, f, c, o.
    Source: tf.raw_ops.BlockLSTMV2; tensorflow/core/kernels/rnn/lstm_ops.h.
    """

    order = "ifco"
    cell_clip: float = attribute("float", 0.0)
