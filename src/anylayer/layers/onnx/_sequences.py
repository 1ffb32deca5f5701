"""NumPy meanings of recurrent layers and normalizations."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from anylayer import ops
from anylayer.errors import need
from anylayer.layers.onnx._call import NoMeaning, OpCall, meaning
from anylayer.network import Array


def batch_first(call: OpCall, results: Callable[[OpCall], Any]) -> list[Any]:
    """Return the outputs of a recurrent operator with layout=1, where the batch is the first axis.

    Engines do not support it, so an operator with layout=0 is computed between transposes.
    """
    turned = [
        x.swapaxes(0, 1) if x is not None and i in (0, 5, 6) else x  # the sequences and the initial states
        for i, x in enumerate(call.inputs)
    ]
    outputs = results(OpCall(call.op, call.version, turned, {**call.attrs, "layout": 0}, call.outputs))
    y, *states = outputs if isinstance(outputs, (list, tuple)) else [outputs]
    return [y.transpose(2, 0, 1, 3), *(h.swapaxes(0, 1) for h in states)]


def _common_attributes(call: OpCall) -> dict[str, Any]:
    """Return the attributes that anylayer.ops takes too."""
    if call["layout"] or call["activation_alpha"] or call["activation_beta"]:
        raise NoMeaning
    return {
        "hidden_size": call["hidden_size"] or call.inputs[2].shape[-1],
        "direction": call["direction"],
        "activations": _activations(call),
        "clip": call["clip"] or None,
    }


def _activations(call: OpCall) -> list[str] | None:
    """Return the activations for the directions there are. ONNX's default lists those of two directions."""
    names = list(call["activations"] or ())
    count = {"LSTM": 3, "GRU": 2, "RNN": 1}[call.op] * (2 if call["direction"] == "bidirectional" else 1)
    return names[:count] if names == ["Tanh", "Tanh"] else names or None


@meaning("LSTM")
def _lstm(call: OpCall, *inputs: Any) -> Any:
    return ops.lstm(*inputs, **_common_attributes(call), input_forget=bool(call["input_forget"]))


@meaning("GRU")
def _gru(call: OpCall, *inputs: Any) -> Any:
    return ops.gru(*inputs, **_common_attributes(call), linear_before_reset=bool(call["linear_before_reset"]))


@meaning("RNN")
def _rnn(call: OpCall, *inputs: Any) -> Any:
    return ops.rnn(*inputs, **_common_attributes(call))


@meaning("LogSoftmax")
def _log_softmax(call: OpCall, x: Array) -> Array:
    return ops.log_softmax(x, axis=call["axis"])


@meaning("BatchNormalization")
def _batch_norm(call: OpCall, x: Array, scale: Array, bias: Array, mean: Array, var: Array) -> Array:
    if call["training_mode"]:
        raise NoMeaning
    if len(x.shape) < 2:
        raise NoMeaning
    return ops.batch_normalization(x, scale, bias, mean, var, epsilon=call["epsilon"]).astype(x.dtype)


@meaning("GroupNormalization")
def _group_norm(call: OpCall, x: Array, scale: Array, bias: Array) -> Any:
    """Normalize groups of channels. Scale and bias have one number per channel, as in operator set 21."""
    n, c = x.shape[:2]
    groups = call["num_groups"]
    need(groups > 0 and c % groups == 0, f"num_groups={groups} does not divide {c} channels")
    parts = x.reshape(n, groups, -1).astype(np.float32)
    mean = parts.mean(axis=-1, keepdims=True)
    variance = np.square(parts - mean).mean(axis=-1, keepdims=True)
    y = ((parts - mean) / np.sqrt(variance + np.float32(call["epsilon"]))).reshape(x.shape)
    wide = (-1, *(1,) * (len(x.shape) - 2))
    return (y.astype(x.dtype) * scale.reshape(wide) + bias.reshape(wide)).astype(x.dtype)
