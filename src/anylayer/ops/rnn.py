"""The simple recurrent network."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np

from anylayer.network import Array
from anylayer.ops._operator import operator
from anylayer.ops._recurrent import RecurrentPlan, Step, Steps, one_state


@operator
def rnn(
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
) -> tuple[Array, ...]:
    """Run h = f(x w + h r + b) over `x` (T, B, values). Return Y (T, D, B, H) and Y_h (D, B, H) (ONNX RNN-14).

    D is 2 for direction "bidirectional", else 1 ("forward" or "reverse"). H is `hidden_size`. `w` is (D, H,
    values), `r` (D, H, H); `b` (D, 2 H) holds the bias of `w`, then that of `r`. `activations` names f for each
    direction (default: Tanh). `clip` limits its argument to [-clip, clip]. `sequence_lens` (B,) are the lengths of
    the sequences: Y is 0 past the end of a sequence. `initial_h` is (D, B, H), default 0. Raises LayerError for
    wrong shapes and unknown names.
    """
    how = {"hidden_size": hidden_size, "direction": direction, "activations": activations, "clip": clip}
    plan = _plan(x, w, r, b, sequence_lens, initial_h, **how)
    return plan.run(_step(plan, w, r, b), [initial_h])


def _step(plan: RecurrentPlan, w: Array, r: Array, b: Array | None) -> Steps:
    size = plan.hidden

    def step(d: int) -> tuple[Array, Step]:
        (f,) = plan.functions(d)
        bias = np.zeros(size, plan.x.dtype) if b is None else b[d, :size] + b[d, size:]
        recurrent = r[d].T
        return w[d], lambda part, h: (f(part + h @ recurrent + bias),)

    return step


_plan = partial(one_state, 1, ["Tanh"])


@rnn.form
def _(*inputs: Any, **how: Any) -> tuple[Array, ...]:
    plan = _plan(*inputs, **how)
    if plan.native:
        return plan.record("RNN", inputs, 2)
    _, w, r, b, _, initial_h = inputs
    return plan.run(_step(plan, w, r, b), [initial_h])
