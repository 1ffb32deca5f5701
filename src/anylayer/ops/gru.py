"""The gated recurrent unit."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from anylayer.ops._operator import operator
from anylayer.ops._recurrent import Recurrent


@operator
def gru(
    x: Any,
    w: Any,
    r: Any,
    b: Any = None,
    sequence_lens: Any = None,
    initial_h: Any = None,
    *,
    hidden_size: int,
    direction: str = "forward",
    activations: Sequence[str] | None = None,
    clip: float | None = None,
    linear_before_reset: bool = False,
) -> Any:
    """A GRU over the steps of `x` (T, B, values): (Y (T, D, B, H), Y_h (D, B, H)), ONNX GRU-14.

    D is 2 for direction "bidirectional", else 1. `w` (D, 3 H, values) and `r` (D, 3 H, H) hold the gates z, r, h
    in turn, `b` (D, 6 H) those of w and then of r:
        z = f(x wz + h rz + b), r = f(x wr + h rr + b), n = g(x wh + (r * h) rh + b), h = (1 - z) * n + z * h;
    with `linear_before_reset` n = g(x wh + bwh + r * (h rh + brh)). Past its length a sequence gives zeros.
    `clip` bounds what f and g are given. `activations` name f, g for each direction (Sigmoid, Tanh).
    """
    plan = _plan(x, w, r, b, sequence_lens, initial_h, hidden_size, direction, activations, clip)
    return plan.run(_step(plan, w, r, b, linear_before_reset), [initial_h])


def _step(plan: Recurrent, w: Any, r: Any, b: Any, linear_before_reset: bool) -> Callable[[int], Any]:
    size = plan.hidden

    def step(d: int) -> Any:
        f, g = plan.functions(d)
        biases = np.zeros(6 * size, plan.x.dtype) if b is None else b[d]
        bias = biases[: 3 * size] + biases[3 * size :]
        gates, new = r[d, : 2 * size].T, r[d, 2 * size :].T

        def unit(part: Any, h: Any) -> tuple[Any]:
            both = f(part[:, : 2 * size] + h @ gates + bias[: 2 * size])
            z, reset = both[:, :size], both[:, size:]
            if linear_before_reset:
                inner = reset * (h @ new + biases[5 * size :]) + biases[2 * size : 3 * size]
            else:
                inner = (reset * h) @ new + bias[2 * size :]
            return ((1 - z) * g(part[:, 2 * size :] + inner) + z * h,)

        return w[d], unit

    return step


def _plan(
    x: Any, w: Any, r: Any, b: Any, lens: Any, h: Any, hidden: int, direction: str, names: Any, clip: Any
) -> Recurrent:
    return Recurrent(
        x,
        w,
        r,
        b,
        gates=3,
        hidden_size=hidden,
        direction=direction,
        activations=names,
        default=["Sigmoid", "Tanh"],
        clip=clip,
        states=[h],
        sequence_lens=lens,
    )


@gru.form
def _(
    x: Any,
    w: Any,
    r: Any,
    b: Any = None,
    sequence_lens: Any = None,
    initial_h: Any = None,
    *,
    hidden_size: int,
    direction: str = "forward",
    activations: Sequence[str] | None = None,
    clip: float | None = None,
    linear_before_reset: bool = False,
) -> Any:
    plan = _plan(x, w, r, b, sequence_lens, initial_h, hidden_size, direction, activations, clip)
    inputs = [x, w, r, b, sequence_lens, initial_h]
    if plan.native:
        return plan.record("GRU", inputs, 2, linear_before_reset=int(linear_before_reset))
    return plan.run(_step(plan, w, r, b, linear_before_reset), [initial_h])
