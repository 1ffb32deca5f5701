"""LSTM."""

from __future__ import annotations

from typing import Any

import numpy as np

from anylayer.layer import Registry, bind
from anylayer.network import Array, TensorType
from anylayer.testing import assert_same, check_function
from tests.layers.harness import Case, case, noise, rejects

T, N, V, D, S = 4, 3, 5, 2, 6
X = noise(T, N, V)
CONT = np.array([[0, 1, 0], [1, 1, 0], [0, 1, 1], [1, 1, 1]], np.float32)
STATIC = noise(N, S, seed=1)
FIRST = [noise(1, N, D, seed=2), noise(1, N, D, seed=3)]
W = noise(4 * D, V, seed=4, scale=0.4)
B = noise(4 * D, seed=5)
W_STATIC = noise(4 * D, S, seed=6, scale=0.4)
W_H = noise(4 * D, D, seed=7, scale=0.4)


def sigmoid(x: Array) -> Array:
    return 1 / (1 + np.exp(-x))


def reference(cont: Array, static: Array | None = None, first: list[Array] | None = None) -> list[Array]:
    """Compute lstm_layer.cpp and lstm_unit_layer.cpp step by step: h of every step, and the last h and c."""
    h, c = (s[0] for s in first) if first else (np.zeros((N, D)), np.zeros((N, D)))
    steps = []
    for t in range(T):
        gates = X[t] @ W.T + B + (cont[t][:, None] * h) @ W_H.T
        if static is not None:
            gates = gates + static @ W_STATIC.T
        i, f, o, g = np.split(gates, 4, axis=1)
        c = cont[t][:, None] * sigmoid(f) * c + sigmoid(i) * np.tanh(g)
        h = sigmoid(o) * np.tanh(c)
        steps.append(h)
    return [np.stack(steps).astype(np.float32), h[None].astype(np.float32), c[None].astype(np.float32)]


def agrees(cont: Array = CONT, *, static: bool = False, expose: bool = False, **given: Any) -> Any:
    outputs = reference(cont, STATIC if static else None, FIRST if expose else None)
    return case(
        "LSTM",
        {"num_output": D, "expose_hidden": int(expose)},
        inputs=[given.pop("x", X), cont, *([STATIC] if static else []), *(FIRST if expose else [])],
        blobs=[W, B, *([W_STATIC] if static else []), W_H],
        outputs=outputs if expose else outputs[:1],
        **given,
    )


test_sequences_begin_where_cont_is_0 = agrees()
test_static_input = agrees(static=True)
test_exposed_state = agrees(expose=True)
test_exposed_state_and_static_input = agrees(static=True, expose=True)
test_every_step_a_sequence = agrees(np.zeros((T, N), np.float32))
test_one_sequence = agrees(np.ones((T, N), np.float32), expose=True)
test_cont_scales_the_state = agrees(np.full((T, N), 0.5, np.float32), expose=True)
test_further_dimensions = agrees(x=X[..., None, None])
test_state_starts_at_0 = agrees(notes=["each call starts with a zero state"])


def _known_before_running(cont: Array, static: bool = False) -> None:
    made = agrees(cont, static=static, expose=True).case
    others = [i for i in range(len(made.inputs)) if i != 1]

    def layer(*xs: Array) -> Any:
        full = list(xs)
        full.insert(1, cont)
        types = [TensorType.of(x.shape) for x in made.inputs]
        return bind(made.node(), Registry.of("caffe").find("LSTM"), types)(full)

    for got, want in zip(layer(*(made.inputs[i] for i in others)), made.outputs):
        assert_same(got, want)
    graph = check_function(layer, *(made.inputs[i] for i in others))
    whole = bool((cont[1:] == 1).all())
    assert (sum(o.op == "LSTM" for o in graph.ops) == 1) is whole


def test_known_cont_of_whole_sequences_is_one_operator() -> None:
    _known_before_running(np.vstack([np.zeros((1, N)), np.ones((T - 1, N))]).astype(np.float32))
    _known_before_running(np.ones((T, N), np.float32), static=True)


def test_known_cont_with_breaks_is_unrolled() -> None:
    _known_before_running(CONT)


def rejected(params: dict[str, Any], text: str, inputs: list[Array] | None = None, **given: Any) -> Any:
    given.setdefault("blobs", [W, B, W_H])
    return rejects("LSTM", {"num_output": D, **params}, inputs=inputs or [X, CONT], text=text, **given)


test_rejects_num_output_of_0 = rejected({"num_output": 0}, "num_output must be at least 1, got 0")
test_rejects_missing_cont = rejected({}, "takes 2 or 3 inputs (x, cont, a static input), got 1", [X])
test_rejects_missing_state_with_expose_hidden = rejected(
    {"expose_hidden": 1}, "takes 4 or 5 inputs (x, cont, a static input, the state), got 2", tops=3
)
test_rejects_missing_state_outputs_with_expose_hidden = rejected(
    {"expose_hidden": 1}, "has 3 outputs with expose_hidden: true, got 1", [X, CONT, *FIRST]
)
test_rejects_second_output_without_expose_hidden = rejected(
    {}, "has 1 output with expose_hidden: false, got 2", tops=2
)
test_rejects_cont_with_axes_exchanged = rejected({}, "cont must be of shape (4, 3), got (3, 4)", [X, CONT.T])
test_rejects_input_without_batch = rejected({}, "x must be of shape (T, N, ...), got (4,)", [X[:, 0, 0], CONT])
test_rejects_static_input_of_other_batch_size = rejected(
    {}, "the static input must be of shape (3, ...), got (2, 6)", [X, CONT, STATIC[:2]]
)
test_rejects_state_without_time_axis = rejected(
    {"expose_hidden": 1},
    "the initial state must be of shape (1, 3, 2), got (3, 2)",
    [X, CONT, FIRST[0][0], FIRST[1]],
    tops=3,
)
test_rejects_weights_of_other_shape = rejected(
    {}, "blob 0 (W of x) has shape (8, 5) in the weights file, expected (8, 15)", [np.tile(X, 3), CONT]
)
test_missing_weights = rejected({}, "blob 2 (W of h) is missing: the weights file has 2 blobs", blobs=[W, B])


def test_weights_without_a_file_have_fillers() -> None:
    bound = Case("LSTM", {"num_output": D}, [X, CONT]).bind()
    assert bound([X, CONT])[0].shape == (T, N, D)
    assert bound.unfilled == []  # Caffe's default filler is a constant


def older(x: np.ndarray, cont: np.ndarray | None) -> np.ndarray:
    """Return the steps of Sophgo's Lstm, whose recurrent term is that of sequence 0, computed one by one."""
    t, n, d = *x.shape[:2], 2
    h, c, steps = np.zeros((n, d)), np.zeros((n, d)), []
    for step in range(t):
        first, new = h[0], []
        for item in range(n):
            goes_on = step > 0 if cont is None else cont[step + item] != 0
            gates = x[step, item] @ OLD_W.T + OLD_B + (first @ OLD_H.T if goes_on else 0)
            i, f, o = (1 / (1 + np.exp(-gates[k * d : k * d + d])) for k in range(3))
            c[item] = (f * c[item] if goes_on else 0) + i * np.tanh(gates[3 * d :])
            new.append(o * np.tanh(c[item]))
        h = np.array(new)
        steps.append(h)
    return np.array(steps, np.float32)


OLD_W, OLD_H, OLD_B = noise(8, 3, seed=1), noise(8, 2, seed=2), noise(8, seed=3)
OLD_X, OLD_CONT = noise(3, 2, 3), np.array([0, 1, 1, 0, 1, 1], np.float32)
OLD = {"lstm_param": {"num_output": 2}}
test_older_layer = case(
    "Lstm", OLD, blobs=[OLD_W, OLD_H, OLD_B], inputs=[OLD_X[:, :1]], outputs=[older(OLD_X[:, :1], None)]
)
test_older_layer_has_two_faults = case(
    "Lstm",
    OLD,
    blobs=[OLD_W, OLD_H, OLD_B],
    inputs=[OLD_X, OLD_CONT],
    outputs=[older(OLD_X, OLD_CONT)],
    notes=["all sequences take the recurrent term of sequence 0", "sequence n of step t takes cont[t + n]"],
)
test_older_layer_without_cont = case(
    "Lstm", OLD, blobs=[OLD_W, OLD_H, OLD_B], inputs=[OLD_X], outputs=[older(OLD_X, None)]
)
test_older_layer_rejects_matrices = rejects("Lstm", OLD, inputs=[OLD_X[0]], text="x must be of shape (T, N, ...)")
