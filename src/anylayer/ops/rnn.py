"""The simple recurrent network."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from anylayer.ops._operator import operator
from anylayer.ops._recurrent import Recurrent


@operator
def rnn(
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
) -> Any:
    """h = f(x w + h r + b) over the steps of `x` (T, B, values): (Y (T, D, B, H), Y_h (D, B, H)), ONNX RNN-14.

    D is 2 for direction "bidirectional", else 1. `w` (D, H, values), `r` (D, H, H), `b` (D, 2 H), that of w first.
    Past its length a sequence gives zeros. `clip` bounds what f is given. `activations` name f for each
    direction (Tanh).
    """
    plan = _plan(x, w, r, b, sequence_lens, initial_h, hidden_size, direction, activations, clip)
    return plan.run(_step(plan, w, r, b), [initial_h])


def _step(plan: Recurrent, w: Any, r: Any, b: Any) -> Callable[[int], Any]:
    size = plan.hidden

    def step(d: int) -> Any:
        (f,) = plan.functions(d)
        bias = np.zeros(size, plan.x.dtype) if b is None else b[d, :size] + b[d, size:]
        recurrent = r[d].T
        return w[d], lambda part, h: (f(part + h @ recurrent + bias),)

    return step


def _plan(
    x: Any, w: Any, r: Any, b: Any, lens: Any, h: Any, hidden: int, direction: str, names: Any, clip: Any
) -> Recurrent:
    return Recurrent(
        x,
        w,
        r,
        b,
        gates=1,
        hidden_size=hidden,
        direction=direction,
        activations=names,
        default=["Tanh"],
        clip=clip,
        states=[h],
        sequence_lens=lens,
    )


@rnn.form
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
) -> Any:
    plan = _plan(x, w, r, b, sequence_lens, initial_h, hidden_size, direction, activations, clip)
    if plan.native:
        return plan.record("RNN", [x, w, r, b, sequence_lens, initial_h], 2)
    return plan.run(_step(plan, w, r, b), [initial_h])
