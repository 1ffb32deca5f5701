"""Long short-term memory."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from anylayer.errors import need
from anylayer.ops._operator import operator
from anylayer.ops._recurrent import Recurrent


@operator
def lstm(
    x: Any,
    w: Any,
    r: Any,
    b: Any = None,
    sequence_lens: Any = None,
    initial_h: Any = None,
    initial_c: Any = None,
    peepholes: Any = None,
    *,
    hidden_size: int,
    direction: str = "forward",
    activations: Sequence[str] | None = None,
    clip: float | None = None,
    input_forget: bool = False,
) -> Any:
    """An LSTM over the steps of `x` (T, B, values): (Y (T, D, B, H), Y_h (D, B, H), Y_c (D, B, H)), ONNX LSTM-14.

    D is 2 for direction "bidirectional", else 1. `w` (D, 4 H, values) and `r` (D, 4 H, H) hold the gates i, o, f,
    c in turn, `b` (D, 8 H) those of w and then of r, `peepholes` (D, 3 H) i, o, f:
        i = f(x wi + h ri + pi * c + b), f = f(x wf + h rf + pf * c + b), n = g(x wc + h rc + b),
        c = f * c + i * n, o = f(x wo + h ro + po * c + b), h = o * h(c).
    `clip` bounds what f and g are given. `input_forget` takes 1 - i for f. Past its length a sequence gives
    zeros. `activations` name f, g, h for each direction (Sigmoid, Tanh, Tanh).
    """
    states = [initial_h, initial_c]
    plan = _plan(x, w, r, b, sequence_lens, states, peepholes, hidden_size, direction, activations, clip)
    return plan.run(_step(plan, w, r, b, peepholes, input_forget), states)


def _step(plan: Recurrent, w: Any, r: Any, b: Any, peepholes: Any, input_forget: bool) -> Callable[[int], Any]:
    size, kind = plan.hidden, plan.x.dtype

    def step(d: int) -> Any:
        f, g, _ = plan.functions(d)
        h_ = plan.unclipped(d)[2]
        bias = np.zeros(4 * size, kind) if b is None else b[d, : 4 * size] + b[d, 4 * size :]
        peep = np.zeros((3, size), kind) if peepholes is None else peepholes[d].reshape(3, size)
        recurrent = r[d].T

        def cell(part: Any, h: Any, c: Any) -> tuple[Any, Any]:
            i, o, forget, new = np.split(part + h @ recurrent + bias, 4, axis=1)
            i = f(i + peep[0] * c)
            keep = 1 - i if input_forget else f(forget + peep[2] * c)
            c = keep * c + i * g(new)
            return f(o + peep[1] * c) * h_(c), c

        return w[d], cell

    return step


def _plan(
    x: Any,
    w: Any,
    r: Any,
    b: Any,
    lens: Any,
    states: Any,
    peepholes: Any,
    hidden: int,
    direction: str,
    names: Any,
    clip: Any,
) -> Recurrent:
    plan = Recurrent(
        x,
        w,
        r,
        b,
        gates=4,
        hidden_size=hidden,
        direction=direction,
        activations=names,
        default=["Sigmoid", "Tanh", "Tanh"],
        clip=clip,
        states=states,
        sequence_lens=lens,
    )
    if peepholes is not None:
        shape = (plan.directions, 3 * plan.hidden)
        need(
            tuple(peepholes.shape) == shape,
            f"peepholes must be of shape {shape}, got {tuple(peepholes.shape)}",
        )
    return plan


@lstm.form
def _(
    x: Any,
    w: Any,
    r: Any,
    b: Any = None,
    sequence_lens: Any = None,
    initial_h: Any = None,
    initial_c: Any = None,
    peepholes: Any = None,
    *,
    hidden_size: int,
    direction: str = "forward",
    activations: Sequence[str] | None = None,
    clip: float | None = None,
    input_forget: bool = False,
) -> Any:
    """Step by step where OpenVINO's LSTM differs: it leaves peepholes and `input_forget` out without a word."""
    states = [initial_h, initial_c]
    plan = _plan(x, w, r, b, sequence_lens, states, peepholes, hidden_size, direction, activations, clip)
    if plan.native and peepholes is None and not input_forget:
        return plan.record("LSTM", [x, w, r, b, sequence_lens, *states], 3)
    return plan.run(_step(plan, w, r, b, peepholes, input_forget), states)
