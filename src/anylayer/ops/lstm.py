"""Long short-term memory."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from anylayer.errors import need_shape
from anylayer.network import Array
from anylayer.ops._operator import operator
from anylayer.ops._recurrent import SATURATED, RecurrentPlan, Step, Steps, kept_or_not_a_number

_ACTIVATIONS = ["Sigmoid", "Tanh", "Tanh"]
"""The activations of one direction where none are given."""


@operator
def lstm(
    x: Array,
    w: Array,
    r: Array,
    b: Array | None = None,
    sequence_lens: Array | None = None,
    initial_h: Array | None = None,
    initial_c: Array | None = None,
    peepholes: Array | None = None,
    *,
    hidden_size: int,
    direction: str = "forward",
    activations: Sequence[str] | None = None,
    clip: float | None = None,
    input_forget: bool = False,
    keep: Array | None = None,
) -> tuple[Array, ...]:
    """Run an LSTM over `x` (T, B, values). Return Y (T, D, B, H), Y_h (D, B, H) and Y_c (D, B, H) (ONNX LSTM-14).

    D is 2 for direction "bidirectional", else 1 ("forward" or "reverse"). H is `hidden_size`. `w` (D, 4 H, values)
    and `r` (D, 4 H, H) hold the gates i, o, f, c in this order; `b` (D, 8 H) holds the biases of `w`, then those
    of `r`; `peepholes` (D, 3 H) holds i, o, f.
        i = f(x wi + h ri + pi * c + b), f = f(x wf + h rf + pf * c + b), n = g(x wc + h rc + b),
        c = f * c + i * n, o = f(x wo + h ro + po * c + b), h = o * h(c)
    With `input_forget`, 1 - i replaces the gate f. `activations` names f, g, h for each direction (default:
    Sigmoid, Tanh, Tanh). `clip` limits the arguments of f and g to [-clip, clip]. `sequence_lens` (B,) are the
    lengths of the sequences: Y is 0 past the end of a sequence. `initial_h` and `initial_c` are (D, B, H), default
    0. `keep` (T, B) are factors of h and c before each step: 0 begins a sequence, 1 continues it. Where the number
    of steps is open, other factors give NaN. Raises LayerError for wrong shapes and unknown names.
    """
    states = [initial_h, initial_c]
    how = {"hidden_size": hidden_size, "direction": direction, "activations": activations, "clip": clip}
    how["keep"] = keep
    plan = _plan(x, w, r, b, sequence_lens, states, peepholes, **how)
    return plan.run(_step(plan, w, r, b, peepholes, input_forget), states)


def _step(
    plan: RecurrentPlan, w: Array, r: Array, b: Array | None, peepholes: Array | None, input_forget: bool
) -> Steps:
    size, kind = plan.hidden, plan.x.dtype

    def step(d: int) -> tuple[Array, Step]:
        f, g, _ = plan.functions(d)
        output = plan.unclipped(d)[2]
        bias = np.zeros(4 * size, kind) if b is None else b[d, : 4 * size] + b[d, 4 * size :]
        peep = np.zeros((3, size), kind) if peepholes is None else peepholes[d].reshape(3, size)
        recurrent = r[d].T

        def cell(part: Array, h: Array, c: Array) -> tuple[Array, Array]:
            i, o, forget, new = np.split(part + h @ recurrent + bias, 4, axis=1)
            i = f(i + peep[0] * c)
            keep = 1 - i if input_forget else f(forget + peep[2] * c)
            c = keep * c + i * g(new)
            return f(o + peep[1] * c) * output(c), c

        return w[d], cell

    return step


def _plan(
    x: Array, w: Array, r: Array, b: Any, lens: Any, states: Sequence[Any], peepholes: Any, **how: Any
) -> RecurrentPlan:
    plan = RecurrentPlan(x, w, r, b, gates=4, default=_ACTIVATIONS, states=states, sequence_lens=lens, **how)
    if peepholes is not None:
        shape = (plan.directions, 3 * plan.hidden)
        need_shape(peepholes, shape, "peepholes")
    return plan


@lstm.form
def _(
    x: Array,
    w: Array,
    r: Array,
    b: Array,
    lens: Any,
    h: Array,
    c: Array,
    peepholes: Any,
    *,
    input_forget: bool,
    **how: Any,
) -> tuple[Array, ...]:
    """Record the steps one by one where OpenVINO's LSTM differs: it ignores peepholes and input_forget."""
    states = [h, c]
    plan = _plan(x, w, r, b, lens, states, peepholes, **how)
    if plan.native and peepholes is None and not input_forget:
        if plan.runs_through:
            return plan.record("LSTM", [x, w, r, b, lens, *plan.states_before(0, states)], 3)
        if plan.is_open and not how["clip"] and plan.names == _ACTIVATIONS:
            return _restarting(x, w, r, b, h, c, **how)
    return plan.run(_step(plan, w, r, b, peepholes, input_forget), states)


def _restarting(
    x: Array, w: Array, r: Array, b: Array, h: Array, c: Array, *, keep: Array, hidden_size: int, **how: Any
) -> tuple[Array, ...]:
    """Record an LSTM for any number of steps, whose sequences start where `keep` (T, B) is 0.

    Before such a step, a further step closes all gates, which resets the state. So a sample takes at most 2 T
    steps. The steps after its last one keep c.
    """
    t, n, values = x.shape
    kind = x.dtype
    starts = (keep == 0).astype(np.int64)
    places = np.arange(t)[:, None] + np.cumsum(starts, axis=0)
    samples = np.broadcast_to(np.arange(n), (t, n))
    after = (np.arange(2 * t)[:, None] > places[-1]).astype(kind)[:, :, None]
    steps = np.concatenate([np.zeros((2 * t, n, values), kind), 1 - after, after], 2)
    steps[places, samples] = np.concatenate([kept_or_not_a_number(x, keep), np.zeros((t, n, 2), kind)], 2)
    gates = np.array([[-SATURATED, -SATURATED], [-SATURATED, -SATURATED], [-SATURATED, SATURATED], [0, 0]], kind)
    marked = np.concatenate([w, np.repeat(gates, hidden_size, axis=0)[None]], 2)
    y, _, c = lstm(steps, marked, r, b, initial_h=h, initial_c=c, hidden_size=hidden_size, **how)
    y = np.take_along_axis(y[:, 0], places[:, :, None], 0)
    return y[:, None], y[-1][None], c
