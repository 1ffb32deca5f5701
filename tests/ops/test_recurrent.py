"""Recurrent operators match onnx's reference implementation, a loop, and the engines."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper
from onnx.reference import ReferenceEvaluator

import anylayer
from anylayer import ops
from anylayer.errors import InputError
from anylayer.network import Array
from anylayer.testing import check_function
from tests.compile.open_sizes import check_sizes
from tests.ops.harness import agree, noise, refuses

T, B, V, H = 4, 3, 5, 6  # steps, batch size, input size, hidden size
GATES = {"RNN": 1, "GRU": 3, "LSTM": 4}
OPERATORS: dict[str, Callable[..., Any]] = {"RNN": ops.rnn, "GRU": ops.gru, "LSTM": ops.lstm}
DIRECTIONS = ("forward", "reverse", "bidirectional")
LENGTHS = np.array([4, 2, 1], np.int32)


def weights(op: str, direction: str) -> dict[str, Array]:
    d, rows = 1 + (direction == "bidirectional"), GATES[op] * H
    made = {"w": noise(d, rows, V), "r": noise(d, rows, H, seed=1), "b": noise(d, 2 * rows, seed=2)}
    made["initial_h"] = noise(d, B, H, seed=3)
    if op == "LSTM":
        made["initial_c"] = noise(d, B, H, seed=4)
    return made


def reference(op: str, x: Array, given: dict[str, Array], direction: str, **attrs: Any) -> list[Array]:
    """Return the results of onnx's reference implementation."""
    feed = {"x": x, **given}
    names = ["x", "w", "r", "b", "", "initial_h", "initial_c", "peepholes"]
    used = [n if n in feed else "" for n in names][: 8 if op == "LSTM" else 6]
    outputs = ["y", "y_h", "y_c"][: 3 if op == "LSTM" else 2]
    node = helper.make_node(op, used, outputs, hidden_size=H, direction=direction, **attrs)
    infos = [helper.make_tensor_value_info(n, 1, v.shape) for n, v in feed.items()]
    graph = helper.make_graph([node], "g", infos, [onnx.ValueInfoProto(name=n) for n in outputs])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)])
    return list(ReferenceEvaluator(model).run(None, feed))


@pytest.mark.parametrize("direction", DIRECTIONS)
@pytest.mark.parametrize("op", GATES)
def test_recurrence_matches_the_onnx_reference(op: str, direction: str) -> None:
    x, given = noise(T, B, V, seed=9), weights(op, direction)
    ours = OPERATORS[op](x, **given, hidden_size=H, direction=direction)
    for y, expected in zip(ours, reference(op, x, given, direction), strict=True):
        assert y.dtype == np.float32
        np.testing.assert_allclose(y, expected, atol=1e-5)


def test_variants_match_the_onnx_reference() -> None:
    x = noise(T, B, V, seed=9)
    given = weights("GRU", "forward")
    for after in (0, 1):
        y, _ = ops.gru(x, **given, hidden_size=H, linear_before_reset=bool(after))
        expected = reference("GRU", x, given, "forward", linear_before_reset=after)[0]
        np.testing.assert_allclose(y, expected, atol=1e-5)
    given = {**weights("LSTM", "forward"), "peepholes": noise(1, 3 * H, seed=5)}
    y, _, c = ops.lstm(x, **given, hidden_size=H)
    expected_y, _, expected_c = reference("LSTM", x, given, "forward")
    np.testing.assert_allclose(y, expected_y, atol=1e-5)
    np.testing.assert_allclose(c, expected_c, atol=1e-5)


def sigmoid(v: Array) -> Array:
    return 1 / (1 + np.exp(-v))


def test_lstm_with_all_options_matches_a_loop() -> None:
    """Peepholes, clip, coupled gates, lengths and a reversed direction, one sequence at a time."""
    x, given, p = noise(T, B, V, seed=9), weights("LSTM", "reverse"), noise(1, 3 * H, seed=5)
    y, y_h, y_c = ops.lstm(
        x,
        **given,
        sequence_lens=LENGTHS,
        peepholes=p,
        hidden_size=H,
        direction="reverse",
        clip=1.0,
        input_forget=True,
    )
    w, r, b = (given[n][0].astype(np.float64) for n in "wrb")
    pi, po, _ = p[0].reshape(3, H)

    def clipped(v: Array) -> Array:
        return np.clip(v, -1, 1)

    for n, length in enumerate(LENGTHS):
        h, c = given["initial_h"][0, n].astype(np.float64), given["initial_c"][0, n].astype(np.float64)
        for t in reversed(range(length)):
            i, o, _, g = np.split(w @ x[t, n] + r @ h + b[: 4 * H] + b[4 * H :], 4)
            i = sigmoid(clipped(i + pi * c))
            c = (1 - i) * c + i * np.tanh(clipped(g))
            h = sigmoid(clipped(o + po * c)) * np.tanh(c)
            np.testing.assert_allclose(y[t, 0, n], h, atol=1e-5)
        assert (y[length:, 0, n] == 0).all()
        np.testing.assert_allclose(y_h[0, n], h, atol=1e-5)
        np.testing.assert_allclose(y_c[0, n], c, atol=1e-5)


@pytest.mark.parametrize("direction", DIRECTIONS)
@pytest.mark.parametrize("op", GATES)
def test_recurrence_matches_numpy_on_engines(op: str, direction: str) -> None:
    operator, given = OPERATORS[op], weights(op, direction)
    plain = {"w": given["w"], "r": given["r"], "hidden_size": H, "direction": direction}

    def run(x: Array, lengths: Array) -> list[Array]:
        return [
            *operator(x, **plain),
            *operator(x, **given, sequence_lens=lengths, hidden_size=H, direction=direction),
            *operator(x, **plain, clip=0.5),
        ]

    agree(run, noise(T, B, V, seed=9), LENGTHS)


def test_gru_with_linear_before_reset_on_engines() -> None:
    given = weights("GRU", "bidirectional")
    agree(
        lambda x: ops.gru(x, **given, hidden_size=H, direction="bidirectional", linear_before_reset=True),
        noise(T, B, V),
    )


def test_options_that_openvino_ignores_are_unrolled() -> None:
    given, p = weights("LSTM", "reverse"), noise(1, 3 * H, seed=5)

    def run(x: Array, lengths: Array) -> list[Array]:
        return [
            *ops.lstm(x, **given, peepholes=p, hidden_size=H, direction="reverse"),
            *ops.lstm(x, **given, sequence_lens=lengths, input_forget=True, hidden_size=H, direction="reverse"),
        ]

    agree(run, noise(T, B, V), LENGTHS.astype(np.int64))


@pytest.mark.parametrize("name", ["Relu", "LeakyRelu", "HardSigmoid", "Elu", "Softsign", "Softplus"])
def test_activations_match_numpy_on_engines(name: str) -> None:
    lstm, gru, rnn = (weights(op, "forward") for op in ("LSTM", "GRU", "RNN"))

    def run(x: Array) -> list[Array]:
        return [
            ops.lstm(x, **lstm, hidden_size=H, activations=["Sigmoid", name, name])[0],
            ops.gru(x, **gru, hidden_size=H, activations=["Sigmoid", name])[0],
            ops.rnn(x, **rnn, hidden_size=H, activations=[name], clip=1.0)[0],
        ]

    agree(run, noise(T, B, V) * np.float32(0.3))


def test_recurrences_refuse_invalid_arguments() -> None:
    x, given = noise(T, B, V), weights("LSTM", "forward")
    w, r = given["w"], given["r"]
    refuses(
        "a recurrent input must be (steps, batch, values), got shape (3, 5)", ops.lstm, x[0], w, r, hidden_size=H
    )
    refuses("hidden_size must be an integer of at least 1, got 0", ops.lstm, x, w, r, hidden_size=0)
    refuses("w must be of shape (1, 28, 5), got (1, 24, 5)", ops.lstm, x, w, r, hidden_size=7)
    refuses(
        "w must be of shape (2, 24, 5), got (1, 24, 5)",
        ops.lstm,
        x,
        w,
        r,
        hidden_size=H,
        direction="bidirectional",
    )
    refuses("r must be of shape (1, 24, 6), got (1, 24, 5)", ops.lstm, x, w, w, hidden_size=H)
    refuses("b must be of shape (1, 48), got (1, 24)", ops.lstm, x, w, r, noise(1, 24), hidden_size=H)
    refuses("sequence_lens must be of shape (3,), got (2,)", ops.lstm, x, w, r, None, LENGTHS[:2], hidden_size=H)
    refuses(
        "initial state 1 must be of shape (1, 3, 6)", ops.lstm, x, w, r, initial_c=noise(1, 3, 5), hidden_size=H
    )
    refuses(
        "peepholes must be of shape (1, 18), got (1, 6)", ops.lstm, x, w, r, peepholes=noise(1, 6), hidden_size=H
    )
    refuses(
        "direction must be one of forward, reverse, bidirectional, got 'both'",
        ops.lstm,
        x,
        w,
        r,
        hidden_size=H,
        direction="both",
    )
    refuses("activations must be 3 names, got 1: ['Tanh']", ops.lstm, x, w, r, hidden_size=H, activations=["Tanh"])
    refuses(
        "activation must be one of Sigmoid, Tanh,",
        ops.lstm,
        x,
        w,
        r,
        hidden_size=H,
        activations=["Sigmoid", "Tanh", "Sine"],
    )
    refuses("clip must be more than 0, got 0", ops.lstm, x, w, r, hidden_size=H, clip=0)
    refuses("w must be of shape (1, 18, 5), got (1, 24, 5)", ops.gru, x, w, r, hidden_size=H)
    refuses("w must be of shape (1, 6, 5), got (1, 24, 5)", ops.rnn, x, w, r, hidden_size=H)


KEEP = np.array([[0, 1, 0], [1, 1, 0], [0, 1, 1], [1, 1, 1]], np.float32)


def kept(op: str, keep: Array | None, x: Array) -> list[Array]:
    """Return the results of a recurrence with factors of the state."""
    return list(OPERATORS[op](x, **weights(op, "forward"), hidden_size=H, keep=keep))


@pytest.mark.parametrize("op", ["RNN", "LSTM"])
@pytest.mark.parametrize("keep", [KEEP, np.full((T, B), 0.5, np.float32)], ids=["restarts", "factors"])
def test_keep_multiplies_the_state_before_each_step(op: str, keep: Array) -> None:
    x, given = noise(T, B, V, seed=9), weights(op, "forward")
    states = [given.pop(name) for name in ("initial_h", "initial_c") if name in given]
    for t in range(T):
        names = dict(zip(("initial_h", "initial_c"), (s * keep[t][:, None] for s in states)))
        _, *states = OPERATORS[op](x[t : t + 1], **given, **names, hidden_size=H)
    for y, expected in zip(kept(op, keep, x)[1:], states, strict=True):
        np.testing.assert_allclose(y, expected, atol=1e-6)
    agree(lambda x, keep: kept(op, keep, x), x, keep)


@pytest.mark.parametrize("op", ["RNN", "LSTM"])
def test_number_of_steps_is_open_with_keep(op: str) -> None:
    def function(x: Array, noise: Array) -> Any:
        keep = (noise > 0).astype(np.float32)
        return np.concatenate([y.reshape(-1, H) for y in kept(op, keep, x)])

    others = [{"T": n} for n in (1, 2, 4, 7)]
    check_sizes(function, ("T", B, V), ("T", B), first={"T": 3}, second={"T": 5}, others=others)


@pytest.mark.parametrize(
    ("op", "how"),
    [("LSTM", {"clip": 2.0}), ("LSTM", {"activations": ["Relu", "Tanh", "Tanh"]}), ("RNN", {"clip": 2.0})],
)
def test_open_steps_with_keep_are_refused_with_other_functions(
    op: str, how: dict[str, Any], tmp_path: Path
) -> None:
    """Closed gates reset the state only with the usual functions and without a clip."""

    def function(x: Array, keep: Array) -> Array:
        y, *_ = OPERATORS[op](x, **weights(op, "forward"), hidden_size=H, keep=keep, **how)
        return y  # type: ignore[no-any-return]  # the operators are untyped here

    x, keep = noise(T, B, V, seed=3), KEEP
    with pytest.raises(InputError, match=r"allow only those of the trace \(T=2\): T == 2"):
        anylayer.export(function, x, keep, path=tmp_path / "r.onnx", shapes={"x": ("T", B, V), "keep": ("T", B)})
    assert not list(tmp_path.iterdir())


def test_keep_that_starts_no_sequence_is_one_operator() -> None:
    keep = np.vstack([np.zeros((1, B)), np.ones((T - 1, B))]).astype(np.float32)
    graph = check_function(lambda x: kept("LSTM", keep, x), noise(T, B, V, seed=9))
    assert [o.op for o in graph.ops if o.op == "LSTM"] == ["LSTM"]


def test_keep_is_refused_with_lengths_and_other_directions() -> None:
    x, given = noise(T, B, V), weights("LSTM", "reverse")
    text = "keep goes with direction 'forward' and without sequence_lens, got direction 'reverse'"
    refuses(text, ops.lstm, x, **given, hidden_size=H, direction="reverse", keep=KEEP)
    refuses("keep must be of shape (4, 3), got (3, 4)", ops.lstm, x, **given, hidden_size=H, keep=KEEP.T)


@pytest.mark.parametrize("op", GATES)
def test_two_recurrences_over_one_input_on_engines(op: str) -> None:
    operator, one, other = OPERATORS[op], weights(op, "forward"), weights(op, "forward")
    other["w"] = -one["w"]

    def run(x: Array, h: Array) -> list[Array]:
        return [
            operator(x, **one, hidden_size=H)[0],
            operator(x, **other, hidden_size=H)[0],
            operator(x, **one, hidden_size=H, direction="reverse")[0],
            operator(x, **{**one, "initial_h": h}, hidden_size=H)[0],
            x.transpose(1, 0, 2) * np.float32(2),
        ]

    agree(run, noise(T, B, V), noise(1, B, H, seed=6))
