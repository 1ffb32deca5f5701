"""Attention layers."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from anylayer import ops
from anylayer.errors import plural
from anylayer.layer import attribute, layer, need
from anylayer.layer.arguments import axis_of
from anylayer.layers.keras._base import KerasLayer, one_of
from anylayer.layers.keras._functions import causal, masked_softmax
from anylayer.network import Array


class Heads(KerasLayer):
    """Attention with projections. Weights: kernel and bias of query, key, (gate), value and output."""

    masks = "refuses"
    harmless = frozenset({"dropout", "query_shape", "key_shape", "value_shape", "flash_attention"})
    called_with = frozenset((
        "query", "value", "key", "query_mask", "value_mask", "key_mask", "attention_mask",
        "return_attention_scores", "use_causal_mask",
    ))  # fmt: skip

    use_bias: bool = attribute("bool", True, doc="whether the projections have biases")
    use_gate: bool = attribute(
        "bool", False, doc="whether the output is multiplied by a sigmoid of a projected query"
    )
    sliding_window: Any = attribute("any", None, doc="not supported")

    def setup(self) -> None:
        need(self.sliding_window is None, f"sliding_window={self.sliding_window} is not supported")

    def call_arguments(self, inputs: Any) -> tuple[Any, Any, Any, dict[str, Any]]:
        """Return query, value, key, and the other arguments of the call."""
        args, kwargs = self.arguments(inputs)
        arguments = {**dict(zip(("query", "value", "key"), args)), **kwargs}
        need(
            "query" in arguments and "value" in arguments,
            f"takes query and value, got {plural(len(inputs), 'input')}",
        )
        query, value, key = arguments.pop("query"), arguments.pop("value"), arguments.pop("key", None)
        need(query is not None and value is not None, "takes query and value, but one of them is None")
        return query, value, value if key is None else key, arguments

    def project(self, index: int, x: Array, heads: int, size: int, what: str) -> tuple[Array, int]:
        """Return `x` (..., C), projected to (..., heads, size), and the index of the next weight."""
        w = self.blob(index, (x.shape[-1], heads, size), what=f"{what} kernel").reshape(x.shape[-1], heads * size)
        y = x @ w
        if self.use_bias:
            y = y + self.blob(index + 1, (heads, size), what=f"{what} bias").reshape(heads * size)
        return y.reshape(*x.shape[:-1], heads, size), index + 1 + self.use_bias

    def result(self, index: int, x: Array, shape: tuple[int, ...]) -> Array:
        """Return `x` (..., heads, size), projected to (..., *shape)."""
        heads, size = x.shape[-2:]
        count = math.prod(shape)
        w = self.blob(index, (heads, size, *shape), what="output kernel").reshape(heads * size, count)
        y = x.reshape(*x.shape[:-2], heads * size) @ w
        if self.use_bias:
            y = y + self.blob(index + 1, shape, what="output bias").reshape(count)
        return y.reshape(*x.shape[:-2], *shape)

    def mask(self, arguments: dict[str, Any], queries: int, keys: int) -> Any:
        """Return a mask (batch or 1, 1, queries, keys) of the keys that each query sees; None means all keys."""
        visible = None if arguments.get("attention_mask") is None else arguments["attention_mask"].astype(bool)
        if visible is not None and len(visible.shape) == 2:
            visible = visible[None]  # Keras adds axes in front: the two axes are queries and keys
        parts = [
            arguments[k].astype(bool)[:, None] for k in ("value_mask", "key_mask") if arguments.get(k) is not None
        ]
        if arguments.get("query_mask") is not None:
            parts.append(arguments["query_mask"].astype(bool)[:, :, None])
        if arguments.get("use_causal_mask"):
            parts.append(causal(queries, keys))
        for part in parts:
            visible = part if visible is None else visible & part
        return visible[:, None] if visible is not None and len(visible.shape) == 3 else visible


@layer("MultiHeadAttention")
class MultiHeadAttention(Heads):
    """Compute softmax(q @ k^T / sqrt(key_dim)) @ v per head, with projected inputs and output.

    Inputs: query (N, T, C), value (N, S, ...), key (the value by default). Output: (N, T, C), or the sizes of
    output_shape in place of C. With return_attention_scores also the scores (N, heads, T, S). With attention_axes,
    T and S stand for the axes that are attended over, and the other axes are batch axes.
    Weights: kernel (C, heads, size) and bias (heads, size) of query, key, gate (with use_gate) and value; kernel
    (heads, size, C) and bias (C,) of the output.
    Source: arXiv 1706.03762; keras/src/layers/attention/multi_head_attention.py.
    """

    num_heads: int = attribute("int64", doc="number of heads")
    key_dim: int = attribute("int64", doc="size of queries and keys per head")
    value_dim: Any = attribute("any", None, doc="size of values per head; none: key_dim")
    output_shape: Any = attribute("any", None, doc="sizes of the output in place of the last size of the query")
    attention_axes: Any = attribute("any", None, doc="axes that are attended over; none: all but batch and last")
    softmax_robust_masking: Any = attribute("any", None, doc="how Keras 2 masks; does not affect the result")

    def forward(self, *inputs: Array) -> Any:
        query, value, key, arguments = self.call_arguments(inputs)
        rank, heads, size = len(query.shape), self.num_heads, self.value_dim or self.key_dim
        axes = self.attention_axes
        axes = range(1, rank - 1) if axes is None else axes if isinstance(axes, list) else [axes]
        axes = [axis_of(axis, rank, "attention_axes") for axis in axes]
        q, index = self.project(0, query, heads, self.key_dim, "query")
        k, index = self.project(index, key, heads, self.key_dim, "key")
        gate = None
        if self.use_gate:
            gate, index = self.project(index, query, heads, size, "gate")
        v, index = self.project(index, value, heads, size, "value")
        (q, order, sizes), (k, _, _), (v, _, _) = (self._apart(a, axes) for a in (q, k, v))
        mask = self.mask(arguments, q.shape[-2], k.shape[-2])
        if arguments.get("query_mask") is not None:
            self.note(
                "query_mask is applied, but Keras 3.15 ignores it, so the rows of masked queries differ there"
            )
        need(mask is None or len(q.shape) == 4, "a mask over several axes is not supported")
        scores = masked_softmax((q * np.float32(1 / math.sqrt(self.key_dim))) @ k.swapaxes(-1, -2), mask)
        y = (scores @ v).swapaxes(-2, -3)
        y = y.reshape(*sizes, *y.shape[-2:]).transpose(*np.argsort(order).tolist(), len(order), len(order) + 1)
        if gate is not None:
            y = y * ops.sigmoid(gate)
        shape = self.output_shape or [query.shape[-1]]
        y = self.result(index, y, tuple(shape) if isinstance(shape, list) else (shape,))
        return [y, scores][: self.outputs] if arguments.get("return_attention_scores") else y

    def _apart(self, x: Array, axes: list[int]) -> tuple[Any, list[int], list[int]]:
        """Return `x` (N, ..., heads, size) as (N, free axes, heads, cells, size), and how to undo the permutation.

        Cells are the positions along `axes`. The second and third results are the order of the leading axes of `x`
        and their sizes in that order.
        """
        outer = range(len(x.shape) - 2)
        order = [*(a for a in outer if a not in axes), *axes]
        sizes = [x.shape[a] for a in order]
        free = sizes[: len(sizes) - len(axes)]
        y = x.transpose(*order, len(order), len(order) + 1)
        return y.reshape(*free, math.prod(sizes[len(free) :]), *x.shape[-2:]).swapaxes(-2, -3), order, sizes


@layer("GroupedQueryAttention")
@layer("GroupQueryAttention")
class GroupedQueryAttention(Heads):
    """Compute attention in which groups of heads share keys and values.

    Inputs: query (N, T, C), value and key (N, S, ...). Output: (N, T, C); with return_attention_scores also the
    scores (N, num_query_heads, T, S).
    Weights: kernel and bias of query, key, gate (with use_gate), value and output, as for MultiHeadAttention.
    Source: arXiv 2305.13245; keras/src/layers/attention/grouped_query_attention.py.
    """

    head_dim: int = attribute("int64", doc="size of queries, keys and values per head")
    num_query_heads: int = attribute("int64", doc="number of heads")
    num_key_value_heads: int = attribute("int64", doc="number of groups; must divide num_query_heads")

    def forward(self, *inputs: Array) -> Any:
        query, value, key, arguments = self.call_arguments(inputs)
        heads, groups, size = self.num_query_heads, self.num_key_value_heads, self.head_dim
        need(
            groups > 0 and heads % groups == 0,
            f"num_key_value_heads={groups} does not divide num_query_heads={heads}",
        )
        q, index = self.project(0, query, heads, size, "query")
        k, index = self.project(index, key, groups, size, "key")
        gate = None
        if self.use_gate:
            gate, index = self.project(index, query, heads, size, "gate")
        v, index = self.project(index, value, groups, size, "value")
        k, v = (np.repeat(a, heads // groups, axis=2).transpose(0, 2, 1, 3) for a in (k, v))
        q = q.transpose(0, 2, 1, 3) * np.float32(1 / math.sqrt(size))
        scores = masked_softmax(q @ k.swapaxes(-1, -2), self.mask(arguments, q.shape[2], k.shape[2]))
        y = (scores @ v).transpose(0, 2, 1, 3)
        y = self.result(index, y if gate is None else y * ops.sigmoid(gate), (query.shape[-1],))
        return [y, scores][: self.outputs] if arguments.get("return_attention_scores") else y


class PlainAttention(KerasLayer):
    """Attention without projections over [query (N, T, C), value (N, S, C), key (the value by default)]."""

    masks = "refuses"
    harmless = frozenset({"dropout"})
    called_with = frozenset({"mask", "return_attention_scores", "use_causal_mask"})

    use_scale: bool = attribute("bool", False, doc="whether a learned factor multiplies the scores")

    def scores(self, query: Any, key: Any) -> Any:
        """Return the scores (N, T, S)."""
        raise NotImplementedError

    def forward(self, *inputs: Array) -> Any:
        args, keywords = self.arguments(inputs)
        need(len(args) in (2, 3), f"takes [query, value] or [query, value, key], got {plural(len(args), 'input')}")
        query, value, key = args[0], args[1], args[-1]
        masks = keywords.get("mask") or [None, None]
        scores = self.scores(query, key)
        mask = None if masks[1] is None else masks[1].astype(bool)[:, None]
        if keywords.get("use_causal_mask"):
            lower = causal(*scores.shape[1:])
            mask = lower if mask is None else mask & lower
        shares = ops.softmax(scores if mask is None else np.where(mask, scores, scores - np.float32(1e9)), axis=-1)
        y = shares @ value
        if masks[0] is not None:
            y = np.where(masks[0].astype(bool)[:, :, None], y, np.float32(0))
        return [y, shares][: self.outputs] if keywords.get("return_attention_scores") else y


@layer("Attention")
class Attention(PlainAttention):
    """Compute softmax(scores) @ value with the dot products of queries and keys as scores.

    Inputs: query (N, T, C), value (N, S, C), key (N, S, C), by default the value. Output: (N, T, C); with
    return_attention_scores also softmax(scores) (N, T, S). score_mode "concat" takes the sums of tanh(query +
    key).
    Weights: a scalar factor with use_scale, then another with score_mode "concat".
    Source: keras/src/layers/attention/attention.py.
    """

    score_mode: str = attribute("string", "dot", doc="dot, or concat: the sum of tanh(query + key)")

    def scores(self, query: Array, key: Array) -> Array:
        one_of(self.score_mode, ("dot", "concat"), "score_mode")
        scale = self.blob(0, (), what="scale") if self.use_scale else np.float32(1)
        if self.score_mode == "dot":
            return (query @ key.swapaxes(-1, -2)) * scale
        both = np.tanh(scale * (query[:, :, None] + key[:, None]))
        return self.blob(int(self.use_scale), (), what="concat score weight") * np.sum(both, axis=-1)


@layer("AdditiveAttention")
class AdditiveAttention(PlainAttention):
    """Compute softmax(scores) @ value with the sums of tanh(query + key) as scores.

    Inputs: query (N, T, C), value (N, S, C), key (N, S, C), by default the value. Output: (N, T, C); with
    return_attention_scores also softmax(scores) (N, T, S).
    Weights: factors (C,) with use_scale.
    Source: arXiv 1409.0473; keras/src/layers/attention/additive_attention.py.
    """

    use_scale: bool = attribute("bool", True, doc="whether learned factors multiply the terms")

    def scores(self, query: Array, key: Array) -> Array:
        both = np.tanh(query[:, :, None] + key[:, None])
        return np.sum(self.blob(0, (query.shape[-1],), what="scale") * both if self.use_scale else both, axis=-1)
