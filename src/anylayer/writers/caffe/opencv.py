"""What OpenCV's importer reads otherwise than Caffe means it, found by running both (OpenCV 4.14).

A layer named here is written by other layers that mean the same in OpenCV.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from anylayer.network import Node

Values = Mapping[str, Any]
Rule = Callable[[Node, Values, Sequence[int]], bool]


def reads(node: Node, ranks: Sequence[int]) -> bool:
    """Whether OpenCV reads the layer as Caffe does; `ranks` are those of its inputs."""
    rule = _RULES.get(node.type)
    own: Values = next((v for v in node.params.values() if isinstance(v, Mapping)), {})
    return rule is None or rule(node, own, ranks)


def _listed(value: Any) -> list[Any]:
    return list(value) if isinstance(value, (list, tuple)) else [value]


def _convolution(node: Node, own: Values, ranks: Sequence[int]) -> bool:
    """Maps only, channels on axis 1; a deconvolution's dilation is passed over."""
    plain = ranks[0] == 4 and own.get("axis", 1) == 1
    return plain and not (node.type == "Deconvolution" and set(_listed(own.get("dilation", 1))) != {1})


def _pooling(node: Node, own: Values, ranks: Sequence[int]) -> bool:
    """Windows that see nothing have another value."""
    kernels = [own.get(n, own.get("kernel_size", 0)) for n in ("kernel_h", "kernel_w")]
    strides = [own.get(n, own.get("stride", 1)) for n in ("stride_h", "stride_w")]
    return bool(own.get("global_pooling")) or all(s <= k for s, k in zip(strides, kernels))


def _inner_product(node: Node, own: Values, ranks: Sequence[int]) -> bool:
    """Weights that lie transposed are read as if they did not."""
    return not own.get("transpose") and own.get("axis", 1) != 0


def _lrn(node: Node, own: Values, ranks: Sequence[int]) -> bool:
    """Its default of alpha is another one, and k is passed over."""
    return str(own.get("norm_region", "")) in ("WITHIN_CHANNEL", "1") and "alpha" in own


def _two(node: Node, own: Values, ranks: Sequence[int]) -> bool:
    return len(ranks) == 1 or not own.get("bias_term")


def _normalize(node: Node, own: Values, ranks: Sequence[int]) -> bool:
    """A scale for each channel goes with a length for each pixel only."""
    return not own.get("across_spatial", True) or bool(own.get("channel_shared", True))


def _permute(node: Node, own: Values, ranks: Sequence[int]) -> bool:
    return len(_listed(own.get("order", []))) == ranks[0]


def _reshape(node: Node, own: Values, ranks: Sequence[int]) -> bool:
    return "axis" not in own and "num_axes" not in own


_RULES: dict[str, Rule] = {
    "BatchNorm": lambda node, own, ranks: bool(own.get("use_global_stats", True)),
    "Concat": lambda node, own, ranks: "concat_dim" not in own,
    "Convolution": _convolution,
    "Deconvolution": _convolution,
    "Eltwise": lambda node, own, ranks: not node.in_place,
    "InnerProduct": _inner_product,
    "LRN": _lrn,
    "MVN": lambda node, own, ranks: "eps" not in own and ranks[0] == 4,
    "Normalize": _normalize,
    "Permute": _permute,
    "Pooling": _pooling,
    "ReLU6": lambda node, own, ranks: not own,
    "Reshape": _reshape,
    "Scale": _two,
    "Slice": lambda node, own, ranks: "slice_point" in own and "slice_dim" not in own,
}
