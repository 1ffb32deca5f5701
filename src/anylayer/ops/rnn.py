"""The simple recurrent network."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np

from anylayer.network import Array
from anylayer.ops._operator import operator
from anylayer.ops._recurrent import SATURATED, RecurrentPlan, Step, Steps, kept_or_not_a_number, one_state
from anylayer.ops.gru import gru


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
    keep: Array | None = None,
) -> tuple[Array, ...]:
    """Run h = f(x w + h r + b) over `x` (T, B, values). Return Y (T, D, B, H) and Y_h (D, B, H) (ONNX RNN-14).

    D is 2 for direction "bidirectional", else 1 ("forward" or "reverse"). H is `hidden_size`. `w` is (D, H,
    values), `r` (D, H, H); `b` (D, 2 H) holds the bias of `w`, then that of `r`. `activations` names f for each
    direction (default: Tanh). `clip` limits its argument to [-clip, clip]. `sequence_lens` (B,) are the lengths of
    the sequences: Y is 0 past the end of a sequence. `initial_h` is (D, B, H), default 0. `keep` (T, B) are
    factors of h before each step: 0 begins a sequence, 1 continues it. Where the number of steps is open, other
    factors give NaN. Raises LayerError for wrong shapes and unknown names.
    """
    how = {"hidden_size": hidden_size, "direction": direction, "activations": activations, "clip": clip}
    how["keep"] = keep
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
    x, w, r, b, lens, initial_h = inputs
    if plan.native and plan.runs_through:
        return plan.record("RNN", [x, w, r, b, lens, *plan.states_before(0, [initial_h])], 2)
    if plan.is_open and not how["clip"] and plan.names == ["Tanh"]:
        return _restarting(x, w, r, b, initial_h, **how)
    return plan.run(_step(plan, w, r, b), [initial_h])


def _restarting(
    x: Array, w: Array, r: Array, b: Array | None, h: Array, *, keep: Array, hidden_size: int, **how: Any
) -> tuple[Array, ...]:
    """Record a network for any number of steps, whose sequences start where `keep` (T, B) is 0, as a GRU.

    Its update gate is always closed. Its reset gate is closed where a sequence starts.
    """
    d, kind = hidden_size, x.dtype
    marks = np.where((keep == 0)[:, :, None], kind.type(-SATURATED), kind.type(SATURATED))
    resets = np.repeat(np.array([0, 1, 0], kind), d)[None, :, None]
    of_x = np.concatenate([np.concatenate([np.zeros((1, 2 * d, x.shape[2]), kind), w], 1), resets], 2)
    of_h = np.concatenate([np.zeros((1, 2 * d, d), kind), r], 1)
    bias = np.zeros((1, d), kind) if b is None else b[:, :d] + b[:, d:]
    closed, others = np.full((1, d), -SATURATED, kind), np.zeros((1, 3 * d), kind)
    biases = np.concatenate([closed, np.zeros((1, d), kind), bias, others], 1)
    data = np.concatenate([kept_or_not_a_number(x, keep), marks], 2)
    how = {"clip": how["clip"], "linear_before_reset": True}
    return gru(data, of_x, of_h, biases, initial_h=h, hidden_size=d, **how)
