"""LSTM, GRU and RNN as nn modules."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from anylayer.generators.pytorch.code import Code, first, in_tuple
from anylayer.generators.pytorch.operators import writes
from anylayer.graph import Op
from anylayer.network import Array
from anylayer.writers._target import present, require

_GATES = {"LSTM": (0, 2, 3, 1), "GRU": (1, 0, 2), "RNN": (0,)}
"""The index in ONNX's order of each gate, in torch's order: LSTM i, f, g, o of i, o, f, c; GRU r, z, n of z, r,
h."""
_FUNCTIONS = {"LSTM": ["Sigmoid", "Tanh", "Tanh"], "GRU": ["Sigmoid", "Tanh"], "RNN": ["Tanh"]}


@writes("LSTM", "GRU", "RNN")
def _recurrent(code: Code, op: Op) -> list[str]:
    _, w, r, b, lengths, *states = (*op.inputs, *[None] * 8)[:7]
    require(lengths is None, f"a {op.op} with lengths of sequences")
    require(not op["layout"] and not op["clip"], f"a {op.op} with a layout or a clip")
    weights = _weights(op)
    require(weights[0].dtype == np.float32, f"a {op.op} of {weights[0].dtype.name}")
    if op.op == "GRU" and not op["linear_before_reset"]:
        return _gru(code, op)
    direction = op["direction"]
    (count, _, size), hidden = weights[0].shape, int(op["hidden_size"])
    options = (
        _options(op, count)
        + (", bidirectional=True" if count == 2 else "")
        + ("" if b is not None else ", bias=False")
    )
    state = _state(op.op, *weights)
    text = f"nn.{op.op}({size}, {hidden}{options})"
    module = code.module(text, state, [w, r, b])
    flips = direction == "reverse"
    data = code.tensor(first(op))
    data = f"torch.flip({data}, (0,))" if flips else data
    used = [s for s in states[: 2 if op.op == "LSTM" else 1] if s is not None]
    names = [code.new(stem) for stem in ("sequence", "hidden", "cell")[: 3 if op.op == "LSTM" else 2]]
    found = f"{names[1]}, {names[2]}" if op.op == "LSTM" else names[1]
    given = _initial(code, op, used)
    code.line(f"{names[0]}, {f'({found})' if op.op == 'LSTM' else found} = {module}({data}{given})")
    steps, batch = first(op).shape[:2]
    shape = f"({code.size(steps)}, {code.size(batch)}, {count}, {hidden})"
    sequence = f"torch.flip({names[0]}, (0,))" if flips else names[0]
    return [f"{sequence}.reshape({shape}).permute(0, 2, 1, 3)", *names[1:]][: len(op.outputs)]


def _weights(op: Op) -> tuple[Array, Array, Array | None]:
    """Return the weights of the input and of the state, and the biases. Raises NotInTarget for computed ones."""
    w, r, b = (op.constant(i) for i in (1, 2, 3))
    computed = f"a {op.op} with computed weights"
    require(b is not None or op.input(3) is None, computed)
    return present(w, computed), present(r, computed), b


def _initial(code: Code, op: Op, states: Sequence[object]) -> str:
    """Return the argument with the initial state."""
    if not states:
        return ""
    wanted = 2 if op.op == "LSTM" else 1
    require(len(states) == wanted, f"a {op.op} with a part of its initial state")
    texts = [code.tensor(v) for v in op.inputs[5 : 5 + wanted]]
    return f", ({', '.join(texts)})" if op.op == "LSTM" else f", {texts[0]}"


def _options(op: Op, count: int) -> str:
    """Return further arguments of the module. Raises NotInTarget for what nn.LSTM, nn.GRU and nn.RNN lack."""
    given = [a.decode() if isinstance(a, bytes) else str(a) for a in op.attrs.get("activations", [])]
    wanted = _FUNCTIONS[op.op] * count
    if op.op == "RNN" and given and set(given) == {"Relu"}:
        return ', nonlinearity="relu"'
    require(not given or given == wanted, f"a {op.op} with the functions {', '.join(given)}")
    require(op.op != "LSTM" or not op["input_forget"], f"a {op.op} with coupled gates")
    return ""


def _state(kind: str, w: Array, r: Array, b: Array | None) -> dict[str, Array]:
    """Return the weights by torch's names."""
    state = {}
    for i, suffix in enumerate(("_l0", "_l0_reverse")[: len(w)]):
        state[f"weight_ih{suffix}"] = _ordered(kind, w[i])
        state[f"weight_hh{suffix}"] = _ordered(kind, r[i])
        if b is not None:
            half = len(b[i]) // 2
            state[f"bias_ih{suffix}"] = _ordered(kind, b[i][:half])
            state[f"bias_hh{suffix}"] = _ordered(kind, b[i][half:])
    return state


def _ordered(kind: str, array: Array) -> Array:
    """Return the blocks of gates in torch's order."""
    gates = np.split(array, len(_GATES[kind]))
    return np.ascontiguousarray(np.concatenate([gates[i] for i in _GATES[kind]]))


def _gru(code: Code, op: Op) -> list[str]:
    """Write a GRU that applies the reset gate before the product, direction by direction."""
    (w, r, b), state = _weights(op), op.input(5)
    _options(op, len(w))
    hidden = int(op["hidden_size"])
    biases = np.zeros((len(w), 6 * hidden), np.float32) if b is None else b
    sequences, lasts = [], []
    for i in range(len(w)):
        flips = op["direction"] == "reverse" or i == 1
        data = code.tensor(first(op))
        data = f"torch.flip({data}, (0,))" if flips else data
        zeros = f"torch.zeros({code.size(first(op).shape[1])}, {hidden})"
        start = zeros if state is None else f"{code.tensor(state)}[{i}]"
        weights = (w[i], r[i], biases[i, : 3 * hidden] + biases[i, 3 * hidden :])
        names = [code.array(np.ascontiguousarray(a), role) for a, role in zip(weights, ("w", "r", "bias"))]
        sequence, last = code.new("sequence"), code.new("hidden")
        code.line(f"{sequence}, {last} = {code.helper('gru')}({data}, {start}, {', '.join(names)})")
        sequences.append(f"torch.flip({sequence}, (0,))" if flips else sequence)
        lasts.append(last)
    found = [f"torch.stack({in_tuple(sequences)}, 1)", f"torch.stack({in_tuple(lasts)})"]
    return found[: len(op.outputs)]
