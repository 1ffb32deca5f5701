"""RNN."""

from __future__ import annotations

from typing import Any

import numpy as np

from anylayer.layer import Registry, bind
from anylayer.network import Array, TensorType
from anylayer.testing import assert_same, check_function
from tests.layers.harness import case, noise, rejects

T, N, V, D, S = 4, 3, 5, 2, 6
X = noise(T, N, V)
CONT = np.array([[0, 1, 0], [1, 1, 0], [0, 1, 1], [1, 1, 1]], np.float32)
STATIC = noise(N, S, seed=1)
FIRST = noise(1, N, D, seed=2)
W, B = noise(D, V, seed=4, scale=0.4), noise(D, seed=5)
W_STATIC, W_H = noise(D, S, seed=6, scale=0.4), noise(D, D, seed=7, scale=0.4)
W_O, B_O = noise(D, D, seed=8), noise(D, seed=9)


def reference(cont: Array, static: Array | None = None, first: Array | None = None) -> list[Array]:
    """Compute rnn_layer.cpp step by step: o of every step, and the last h."""
    h = np.zeros((N, D)) if first is None else first[0]
    steps = []
    for t in range(T):
        given = X[t] @ W.T + B + (cont[t][:, None] * h) @ W_H.T
        h = np.tanh(given if static is None else given + static @ W_STATIC.T)
        steps.append(np.tanh(h @ W_O.T + B_O))
    return [np.stack(steps).astype(np.float32), h[None].astype(np.float32)]


def agrees(cont: Array = CONT, *, static: bool = False, expose: bool = False) -> Any:
    outputs = reference(cont, STATIC if static else None, FIRST if expose else None)
    return case(
        "RNN",
        {"num_output": D, "expose_hidden": int(expose)},
        inputs=[X, cont, *([STATIC] if static else []), *([FIRST] if expose else [])],
        blobs=[W, B, *([W_STATIC] if static else []), W_H, W_O, B_O],
        outputs=outputs if expose else outputs[:1],
    )


test_sequences_begin_where_cont_is_0 = agrees()
test_static_input = agrees(static=True)
test_exposed_state = agrees(expose=True)
test_exposed_state_and_static_input = agrees(static=True, expose=True)
test_one_sequence = agrees(np.ones((T, N), np.float32), expose=True)


def test_known_cont_of_whole_sequences_is_one_operator() -> None:
    cont = np.vstack([np.zeros((1, N)), np.ones((T - 1, N))]).astype(np.float32)
    made = agrees(cont, static=True, expose=True).case

    def layer(x: Array, *rest: Array) -> Any:
        types = [TensorType.of(x.shape) for x in made.inputs]
        return bind(made.node(), Registry.of("caffe").find("RNN"), types)([x, cont, *rest])

    for got, want in zip(layer(X, STATIC, FIRST), made.outputs):
        assert_same(got, want)
    graph = check_function(layer, X, STATIC, FIRST)
    assert sum(o.op == "RNN" for o in graph.ops) == 1


test_rejects_missing_state_output_with_expose_hidden = rejects(
    "RNN",
    {"num_output": D, "expose_hidden": 1},
    inputs=[X, CONT, FIRST],
    text="has 2 outputs with expose_hidden: true, got 1",
)
test_missing_weights = rejects(
    "RNN",
    {"num_output": D},
    inputs=[X, CONT],
    blobs=[W, B, W_H],
    text="blob 3 (W of o) is missing: the weights file has 3 blobs",
)
