"""Bidirectional and TimeDistributed."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np

from anylayer.errors import LayerError
from anylayer.layer import layer, need
from anylayer.layer.fields import attribute
from anylayer.layers.keras._base import KerasLayer
from anylayer.layers.keras.recurrent import SequenceLayer
from anylayer.network import Array

_MODES = ("concat", "sum", "ave", "mul", None)


@layer("Bidirectional")
class Bidirectional(KerasLayer):
    """Run one recurrent layer over a sequence and another over the reversed sequence, and merge both.

    (N, T, C) to the outputs of both layers, merged by merge_mode; then the last states of both when they are
    returned.
    Weights: those of the forward layer, then those of the backward layer.
    Source: keras/src/layers/rnn/bidirectional.py.
    """

    masks = "takes"
    called_with = frozenset({"initial_state", "mask"})

    layer: Any = attribute("any", doc="the forward layer")
    backward_layer: Any = attribute(
        "any", None, doc="the backward layer; none: the forward layer on the reversed sequence"
    )
    merge_mode: Any = attribute("any", "concat", doc="concat, sum, ave, mul, or none: both outputs")

    def setup(self) -> None:
        need(
            self.merge_mode in _MODES, f"merge_mode must be concat, sum, ave, mul or none, got {self.merge_mode!r}"
        )

    def forward(self, *inputs: Array) -> list[Array]:
        args, kwargs = self.arguments(inputs)
        initial = kwargs.get("initial_state", args[1:])
        half, count = len(initial) // 2, len(self._blobs) // 2
        one, other = self._directions(count)
        there = one.run(args[0], initial[:half], kwargs.get("mask"))
        back = other.run(args[0], initial[half:], kwargs.get("mask"))
        self.adopt(one, 0)
        self.adopt(other, len(one.wanted))
        y = back[0]
        if other.return_sequences:
            y = y[::-1] if other.time_major else y[:, ::-1]
        return [*self._merge(there[0], y), *there[1:], *back[1:]][: self.outputs]

    def _directions(self, count: int) -> tuple[SequenceLayer, SequenceLayer]:
        turned = copy.deepcopy(self.layer)
        if self.backward_layer is None and isinstance(turned, dict) and isinstance(turned.get("config"), dict):
            turned["config"]["go_backwards"] = not turned["config"].get("go_backwards", False)
        one, other = self.inner(self.layer, 0, count), self.inner(self.backward_layer or turned, count, count)
        if not isinstance(one, SequenceLayer) or not isinstance(other, SequenceLayer):
            raise LayerError("wraps a layer that is not recurrent")
        for direction in (one, other):
            direction.zero_output_for_mask = direction.return_sequences
        return one, other

    def _merge(self, a: Array, b: Array) -> list[Array]:
        if self.merge_mode is None:
            return [a, b]
        if self.merge_mode == "concat":
            return [np.concatenate([a, b], axis=-1)]
        if self.merge_mode == "mul":
            return [a * b]
        return [a + b if self.merge_mode == "sum" else (a + b) / np.float32(2)]


@layer("TimeDistributed")
class TimeDistributed(KerasLayer):
    """Apply a layer to each step of a sequence.

    (N, T, ...) to (N, T, ...). The mask of the steps does not affect the layer.
    Weights: those of the layer.
    Source: keras/src/layers/rnn/time_distributed.py.
    """

    masks = "passes"
    called_with = frozenset({"mask"})

    layer: Any = attribute("any", doc="the wrapped layer")

    def forward(self, x: Array, mask: Any = None) -> Any:
        need(len(x.shape) >= 3, f"takes a sequence of rank 3 or more, got {tuple(x.shape)}")
        layer = self.inner(self.layer, 0)
        n, t, *rest = x.shape
        y = layer.forward(x.reshape(n * t, *rest))
        self.adopt(layer, 0)
        return y.reshape(n, t, *y.shape[1:])


@layer("TimeDistributed.join")
class Join(KerasLayer):
    """Return the steps of sequences as the items of one batch, the start of a TimeDistributed model.

    (N, T, ...) to (N * T, ...). Source: keras/src/layers/rnn/time_distributed.py.
    """

    def forward(self, x: Array) -> Any:
        need(len(x.shape) >= 2, f"takes a sequence of rank 2 or more, got {tuple(x.shape)}")
        return x.reshape(x.shape[0] * x.shape[1], *x.shape[2:])


@layer("TimeDistributed.part")
class TimeDistributedPart(KerasLayer):
    """Return the items of one batch as the steps of sequences, the end of a TimeDistributed model.

    (N * T, ...) to (N, T, ...), with N and T of the second input. Source:
    keras/src/layers/rnn/time_distributed.py.
    """

    def forward(self, y: Array, x: Array) -> Any:
        return y.reshape(x.shape[0], x.shape[1], *y.shape[1:])
