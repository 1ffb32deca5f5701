"""Translate a Caffe network to an IR of version 2 to 7, as the Model Optimizer of 2018 does."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from anylayer.api import Net
from anylayer.network import Array

from .ir import Ir

Spelled = tuple[str, dict[str, Any], dict[str, Array]]


class CannotSpell(Exception):
    """The layer cannot be expressed in an IR."""


def spell(net: Net, version: int, half: bool = False) -> Ir:
    """Return the IR of a Caffe network whose shapes are known. Raise CannotSpell if a layer has no equivalent."""
    ir = Ir(version, half)
    types = {name: t for node in net.inspect().nodes for name, t in node.outputs}
    for name, known in net.network.inputs.items():
        if known is None:
            raise CannotSpell("an input without a shape")
        ir.input(name, *known.shape)
    for node in net.network.nodes:
        shapes = [tuple(getattr(d, "maximum", d) for d in types[name].shape) for name in node.outputs]
        given = [ir.shape(name) for name in node.inputs]
        type_, data, blobs = _spelled(node.type, node.params, node.blobs, given, version)
        key = node.outputs[0] if len(node.outputs) == 1 else node.name
        ir.layer(key, type_, node.inputs, shapes, data, blobs)
        for i, name in enumerate(node.outputs):
            ir.ports[name] = ir.ports[key if len(node.outputs) == 1 else (key, i)]
    return ir


def _spelled(
    type_: str, params: Mapping[str, Any], blobs: list[Array], given: list[tuple[int, ...]], version: int
) -> Spelled:
    known = {name: value for message in params.values() for name, value in message.items()}
    known.update(known.pop("nms_param", {}))
    if "code_type" in known:
        known["code_type"] = f"caffe.PriorBoxParameter.{known['code_type']}"
    if isinstance(known.get("shape"), dict):
        known["shape"] = known["shape"]["dim"]
    known.pop("save_output_param", None)
    if type_ in ("ConvolutionDepthwise", "DepthwiseConvolution"):
        type_, known["group"] = "Convolution", given[0][1]
    if type_ in ("Convolution", "Deconvolution", "Pooling"):
        return _windows(type_, known, blobs, given[0], version)
    weights = dict(zip(("weights", "biases"), blobs))
    if type_ == "InnerProduct":
        if known.get("axis", 1) != 1 or known.get("transpose"):
            raise CannotSpell("InnerProduct's axis, transpose")
        return "FullyConnected", {"out-size": known["num_output"]}, weights
    if type_ == "BatchNorm":
        mean, variance, factor = blobs
        scale = np.float32(0 if factor[0] == 0 else 1 / factor[0])
        data = {"epsilon": known.get("eps", 1e-5)}
        return "BatchNormalization", data, {"weights": variance * scale, "biases": mean * scale}
    if type_ == "Scale":
        if len(given) > 1 or known.get("axis", 1) != 1 or known.get("num_axes", 1) != 1:
            raise CannotSpell("Scale by a second input")
        return "ScaleShift", {}, weights
    if type_ in _PLAIN:
        target, names = _PLAIN[type_]
        if set(known) - set(names):
            raise CannotSpell(f"{type_}'s {sorted(set(known) - set(names))}")
        known.pop("engine", None)
        data = {names[name]: _text(value) for name, value in known.items()}
        for name, value in _ALWAYS.get(type_, {}).items():
            data.setdefault(name, value)
        return target, data, weights
    raise CannotSpell(type_)


def _text(value: Any) -> str:
    words = {"PROD": "mul", "SUM": "sum", "MAX": "max", "ACROSS_CHANNELS": "across", "WITHIN_CHANNEL": "same"}
    if isinstance(value, (list, tuple)):
        return ",".join(map(_text, value))
    return words.get(str(value), {"true": "1", "false": "0"}.get(str(value), str(value)))


_PLAIN = {
    "ReLU": ("ReLU", {"negative_slope": "negative_slope"}),
    "PReLU": ("PReLU", {"channel_shared": "channel_shared"}),
    "ELU": ("ELU", {"alpha": "alpha"}),
    "Clip": ("Clamp", {"min": "min", "max": "max"}),
    "Power": ("Power", {"power": "power", "scale": "scale", "shift": "shift"}),
    "Softmax": ("SoftMax", {"axis": "axis", "engine": "engine"}),
    "LRN": (
        "Norm",
        {"local_size": "local-size", "alpha": "alpha", "beta": "beta", "norm_region": "region", "k": "k"},
    ),
    "Eltwise": ("Eltwise", {"operation": "operation", "coeff": "coeff"}),
    "Concat": ("Concat", {"axis": "axis", "concat_dim": "axis"}),
    "Slice": ("Split", {"axis": "axis", "slice_point": "out_sizes", "slice_dim": "axis"}),
    "Permute": ("Permute", {"order": "order"}),
    "Flatten": ("Flatten", {"axis": "axis", "end_axis": "end_axis"}),
    "Tile": ("Tile", {"axis": "axis", "tiles": "tiles"}),
    "MVN": (
        "MVN",
        {"normalize_variance": "normalize_variance", "across_channels": "across_channels", "eps": "eps"},
    ),
    "Normalize": (
        "Normalize",
        {"across_spatial": "across_spatial", "channel_shared": "channel_shared", "eps": "eps"},
    ),
    "ROIPooling": (
        "ROIPooling",
        {"pooled_h": "pooled_h", "pooled_w": "pooled_w", "spatial_scale": "spatial_scale"},
    ),
    "PSROIPooling": (
        "PSROIPooling",
        {"output_dim": "output_dim", "group_size": "group_size", "spatial_scale": "spatial_scale"},
    ),
    "ArgMax": ("ArgMax", {"out_max_val": "out_max_val", "top_k": "top_k", "axis": "axis"}),
    "ShuffleChannel": ("ShuffleChannels", {"group": "group"}),
    "PriorBox": (
        "PriorBox",
        {n: n for n in ("min_size", "max_size", "aspect_ratio", "flip", "clip", "variance", "step", "offset")},
    ),
    "DetectionOutput": (
        "DetectionOutput",
        {
            n: n
            for n in (
                "num_classes",
                "share_location",
                "background_label_id",
                "keep_top_k",
                "confidence_threshold",
                "code_type",
                "nms_threshold",
                "top_k",
            )
        },
    ),
    "Reshape": ("Reshape", {"shape": "dim"}),
    "Dropout": ("Dropout", {"dropout_ratio": "dropout_ratio"}),
    "Split": ("Copy", {}),
}
_ALWAYS: dict[str, dict[str, str]] = {
    "Normalize": {"across_spatial": "1", "channel_shared": "1"},
    "MVN": {"eps": "1e-9"},
}
_ALWAYS["ShuffleChannel"] = {"axis": "1"}
for _type, _kind in (("Sigmoid", "sigmoid"), ("TanH", "tanh")):
    _PLAIN[_type] = ("Activation", {})
    _ALWAYS[_type] = {"type": _kind}


def _windows(
    type_: str, known: Mapping[str, Any], blobs: list[Array], shape: tuple[int, ...], version: int
) -> Spelled:
    count = len(shape) - 2

    def each(name: str, stem: str, default: int) -> list[int]:
        if f"{stem}_h" in known:
            return [known[f"{stem}_h"], known[f"{stem}_w"]]
        value = known.get(name, default)
        values = list(value) if isinstance(value, (list, tuple)) else [value]
        return values * count if len(values) == 1 else values

    kernel = list(shape[2:]) if known.get("global_pooling") else each("kernel_size", "kernel", 0)
    stride, pad = each("stride", "stride", 1), each("pad", "pad", 0)
    dilation = each("dilation", "dilation", 1)
    if version == 2:
        if count != 2:
            raise CannotSpell("version 2 knows two spatial axes")
        data: dict[str, Any] = {"stride": ",".join(map(str, [1, 1, *stride]))}
        for name, values in (("kernel", kernel), ("stride", stride), ("pad", pad)):
            data.update({f"{name}-y": values[0], f"{name}-x": values[1]})
        if type_ != "Pooling":
            data.update({"dilation-y": dilation[0], "dilation-x": dilation[1]})
    else:
        lists = {"kernel": kernel, "strides": stride, "pads_begin": pad, "pads_end": pad}
        if type_ != "Pooling":
            lists["dilations"] = dilation
        data = {name: ",".join(map(str, values)) for name, values in lists.items()}
    if type_ == "Pooling":
        if known.get("pool", "MAX") == "STOCHASTIC":
            raise CannotSpell("STOCHASTIC")
        method = "avg" if str(known.get("pool", "MAX")) == "AVE" else "max"
        data.update({"pool-method": method, "exclude-pad": "false", "rounding-type": "ceil"})
        return "Pooling", data, {}
    if known.get("axis", 1) != 1:
        raise CannotSpell("a convolution's axis")
    data.update({"output": known["num_output"], "group": known.get("group", 1)})
    return type_, data, dict(zip(("weights", "biases"), blobs))
