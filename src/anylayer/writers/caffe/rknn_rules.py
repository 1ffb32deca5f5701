"""Refuse layers that RKNN's Caffe reader refuses, or computes differently without an error.

Each rule was found by running layers of BVLC's Caffe in the simulator of rknn-toolkit2 2.5.0, and comparing the
results with Caffe's; `make test-vendors` runs whole networks.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from anylayer.errors import LayerError
from anylayer.protobuf.binary import as_list
from anylayer.source import Source
from anylayer.writers.caffe.layers import CaffeLayer, CaffeNet

Rule = Callable[[Mapping[str, Any], Sequence[Any], int], str]
"""A function of a layer's parameters, the shape of its first input, () if that is not known, and the number of its
inputs. It returns what RKNN does with such a layer, or "" where it computes what Caffe does."""


def need_right(net: CaffeNet, source: Source) -> None:
    """Raise LayerError for the first layer of a net that RKNN does not compute as Caffe does."""
    shapes = {t.node.name: tuple(t.inputs[0].shape) for t in source.nodes if t.inputs and t.inputs[0] is not None}
    for layer in net.layers:
        rule = _RULES.get(layer.type)
        reason = rule(_params(layer), shapes.get(layer.name, ()), len(layer.bottoms)) if rule is not None else ""
        if reason:
            place = layer.place or f"layer '{layer.name}' ({layer.type})"
            raise LayerError(f"RKNN {reason}. Write this layer for another dialect, or as other layers", place)


def _params(layer: CaffeLayer) -> Mapping[str, Any]:
    return next((values for values in layer.params.values() if isinstance(values, Mapping)), {})


def _pooling(p: Mapping[str, Any], shape: Sequence[Any], inputs: int) -> str:
    if p.get("pool") not in ("AVE", 1) or p.get("global_pooling"):
        return ""
    pads = [p.get(name, 0) for name in ("pad", "pad_h", "pad_w")]
    kernel, stride = ([as_list(p.get(f"{n}_{axis}", p.get(n, 1)))[0] for axis in ("h", "w")] for n in _SIZES)
    over = len(shape) != 4 or any((n - k) % s for n, k, s in zip(shape[2:], kernel, stride))
    return "divides by other sizes in AVE windows that reach beyond the input" if any(pads) or over else ""


_SIZES = ("kernel_size", "stride")


def _unless(condition: Callable[[Mapping[str, Any]], bool], reason: str) -> Rule:
    """Return a rule with a reason for parameters that do not fulfil a condition."""
    return lambda p, shape, inputs: "" if condition(p) else reason


def _scale(p: Mapping[str, Any], shape: Sequence[Any], inputs: int) -> str:
    right = inputs == 2 or (p.get("axis", 1) == 1 and p.get("num_axes", 1) == 1)
    return "" if right else "has only scales per channel"


_RULES: dict[str, Rule] = {
    "Pooling": _pooling,
    "LRN": _unless(
        lambda p: p.get("k", 1) == 1 and p.get("norm_region", 0) in (0, "ACROSS_CHANNELS"),
        "computes other numbers with k other than 1, or within a channel",
    ),
    "BatchNorm": _unless(lambda p: p.get("use_global_stats") is not False, "has no statistics of the batch"),
    "Normalize": _unless(lambda p: not p.get("across_spatial", True), "normalizes each position only"),
    "ReLU6": _unless(lambda p: not p.get("negative_slope"), "ignores negative_slope"),
    "Upsample": _unless(lambda p: p.get("scale") == 2, "computes other numbers with a scale other than 2"),
    "Flatten": _unless(
        lambda p: p.get("axis", 1) == 1 and p.get("end_axis", -1) == -1, "ignores axis and end_axis"
    ),
    "Reshape": _unless(
        lambda p: p.get("axis", 0) == 0 and p.get("num_axes", -1) == -1, "ignores axis and num_axes"
    ),
    "InnerProduct": _unless(
        lambda p: p.get("axis", 1) == 1 and not p.get("transpose"),
        "reads neither transpose nor another axis than 1",
    ),
    "Scale": _scale,
    "Eltwise": _unless(
        lambda p: [*as_list(p.get("coeff", []))] in ([], [1, 1], [1, -1]), "ignores factors other than 1 and -1"
    ),
    "Permute": _unless(lambda p: len(as_list(p.get("order", []))) == 4, "permutes four axes only"),
    "Concat": _unless(lambda p: "concat_dim" not in p, "does not read concat_dim; axis has the same meaning"),
}
