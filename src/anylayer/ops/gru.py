"""The gated recurrent unit."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np

from anylayer.network import Array
from anylayer.ops._operator import operator
from anylayer.ops._recurrent import RecurrentPlan, Step, Steps, one_state


@operator
def gru(
    x: Array,
    w: Array,
    r: Array,
    b: Array | None = None,
    sequence_lens: Array | None = None,
    initial_h: Array | None = None,
    *,
    hidden_size: int,
    direction: str = "forward",
    activations: Sequence[str] | None = None,
    clip: float | None = None,
    linear_before_reset: bool = False,
) -> tuple[Array, ...]:
    """Run a GRU over `x` (T, B, values). Return Y (T, D, B, H) and Y_h (D, B, H) (ONNX GRU-14).

    D is 2 for direction "bidirectional", else 1 ("forward" or "reverse"). H is `hidden_size`. `w` (D, 3 H, values)
    and `r` (D, 3 H, H) hold the gates z, r, h in this order; `b` (D, 6 H) holds the biases of `w`, then those of
    `r`.
        z = f(x wz + h rz + b), r = f(x wr + h rr + b), n = g(x wh + (r * h) rh + b), h = (1 - z) * n + z * h
    With `linear_before_reset`, n = g(x wh + bwh + r * (h rh + brh)).
    `activations` names f and g for each direction (default: Sigmoid, Tanh). `clip` limits their arguments to
    [-clip, clip]. `sequence_lens` (B,) are the lengths of the sequences: Y is 0 past the end of a sequence.
    `initial_h` is (D, B, H), default 0. Raises LayerError for wrong shapes and unknown names.
    """
    how = {"hidden_size": hidden_size, "direction": direction, "activations": activations, "clip": clip}
    plan = _plan(x, w, r, b, sequence_lens, initial_h, **how)
    return plan.run(_step(plan, w, r, b, linear_before_reset), [initial_h])


def _step(plan: RecurrentPlan, w: Array, r: Array, b: Array | None, linear_before_reset: bool) -> Steps:
    size = plan.hidden

    def step(d: int) -> tuple[Array, Step]:
        f, g = plan.functions(d)
        biases = np.zeros(6 * size, plan.x.dtype) if b is None else b[d]
        bias = biases[: 3 * size] + biases[3 * size :]
        gates, new = r[d, : 2 * size].T, r[d, 2 * size :].T

        def unit(part: Array, h: Array) -> tuple[Array]:
            both = f(part[:, : 2 * size] + h @ gates + bias[: 2 * size])
            z, reset = both[:, :size], both[:, size:]
            if linear_before_reset:
                inner = reset * (h @ new + biases[5 * size :]) + biases[2 * size : 3 * size]
            else:
                inner = (reset * h) @ new + bias[2 * size :]
            return ((1 - z) * g(part[:, 2 * size :] + inner) + z * h,)

        return w[d], unit

    return step


_plan = partial(one_state, 3, ["Sigmoid", "Tanh"])


@gru.form
def _(*inputs: Any, linear_before_reset: bool, **how: Any) -> tuple[Array, ...]:
    plan = _plan(*inputs, **how)
    if plan.native:
        return plan.record("GRU", inputs, 2, linear_before_reset=int(linear_before_reset))
    _, w, r, b, _, initial_h = inputs
    return plan.run(_step(plan, w, r, b, linear_before_reset), [initial_h])
