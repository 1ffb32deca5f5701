"""What OpenCV's importer reads otherwise than Caffe means it, found by running both (OpenCV 4.14).

A layer named here is written by other layers that mean the same in OpenCV.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from anylayer.network import Node
from anylayer.writers.caffe.layers import CaffeLayer, CaffeNet, free

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


# ---- names of layers and outputs


def name_outputs(net: CaffeNet, outputs: Iterable[str]) -> None:
    """Give each output a layer of its name, and every layer a name of its own.

    OpenCV has no names of blobs: an output is the first top of a layer that nothing reads, called as the layer is
    (a Convolution as its top is), and `forward()` returns what the last layer of the file gives.
    """
    ends = [_end(net, name) for name in outputs]
    _separate(net, {id(layer): name for layer, name in zip(ends, outputs)})
    if ends and not any(layer is net.layers[-1] for layer in ends):
        net.layers.remove(ends[-1])
        net.layers.append(ends[-1])


def _called(layer: CaffeLayer) -> str:
    """The name that OpenCV gives to a layer."""
    return layer.tops[0] if layer.type == "Convolution" and layer.tops else layer.name


def _taken(net: CaffeNet) -> set[str]:
    return {name for layer in net.layers for name in (layer.name, *layer.tops)}


def _end(net: CaffeNet, name: str) -> CaffeLayer:
    """Return a layer whose only top is an output."""
    last = next(layer for layer in reversed(net.layers) if name in layer.tops)
    if len(last.tops) == 1 and last.type != "Input":
        return last
    blob = free(f"{name}/blob", _taken(net))
    _rename_version(net, name, last, blob)
    net.layers.append(CaffeLayer(name, "Split", [blob], [name], place=last.place))
    return net.layers[-1]


def _separate(net: CaffeNet, ends: Mapping[int, str]) -> None:
    """Name the layers of outputs (by id) after them, and other layers so that no two have one name, in the file or
    in OpenCV."""
    taken = _taken(net)
    names, called = set(ends.values()), set(ends.values())
    for layer in net.layers:
        if id(layer) in ends:
            layer.name = ends[id(layer)]
            continue
        if layer.name in names or (layer.name in called and layer.type not in ("Convolution", "Input")):
            layer.name = free(f"{layer.name}/layer", taken)
        names.add(layer.name)
        if layer.type == "Input":
            continue
        if _called(layer) in called:  # of a Convolution, whose top is another layer's
            _rename_version(net, layer.tops[0], layer, free(f"{layer.tops[0]}/blob", taken))
        called.add(_called(layer))


def _rename_version(net: CaffeNet, name: str, maker: CaffeLayer, other: str) -> None:
    """Give a blob another name from the layer that gives it up to the next one that rewrites it in place."""
    start = next(i for i, layer in enumerate(net.layers) if layer is maker)
    maker.tops = [other if t == name else t for t in maker.tops]
    for layer in net.layers[start + 1 :]:
        layer.bottoms = [other if v == name else v for v in layer.bottoms]
        if name in layer.tops:
            return
