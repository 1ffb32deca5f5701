"""Spell layers so that OpenCV's Caffe reader computes what Caffe computes.

OpenCV reads some layers differently from Caffe. Each rule here was found by running both. A layer is spelled so
that both mean the same, if possible; otherwise it is written as other layers. A user's layer to which OpenCV would
pass other parameters is refused. Source: OpenCV 4.14, modules/dnn/src/caffe (opencv-caffe.proto,
caffe_importer.cpp) and the layers in modules/dnn/src/layers. The tests run every rule in OpenCV.

Rules for the whole file:

* OpenCV reads no fillers: a layer has only the weights in the .caffemodel. So the values of fillers are written.
* `forward` fails if an input has no consumer, and every Silence is an output; see outputs.py, also for names.
* OpenCV keeps a field that its caffe.proto lacks (see FIELDS) as text only: values are strings, a number loses its
  sign, only one of repeated values is kept, inner messages are flattened, and a quoted string ends the reading.
* An unknown field in a known message marks all other fields of the message as set. An unknown message marks the
  required fields of psroi_pooling_param as set.
* A Power with an exponent other than 1 is fused with a layer after it that scales or shifts, as if the exponent
  were 1. A Split keeps the two apart; see outputs.py.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from anylayer.errors import LayerError
from anylayer.network import Node, Shape
from anylayer.protobuf.binary import as_list
from anylayer.protobuf.text import is_truth

ParamValues = dict[str, Any]

OpenCVRule = Callable[[Node, ParamValues, Sequence[Shape]], "ParamValues | None"]
"""A function of a node, its parameters and the shapes of its inputs. It returns the parameters for OpenCV, or None
where OpenCV computes something else with any parameters."""

FIELDS = {
    name: frozenset(fields.split())
    for name, _, fields in (
        line.partition(": ")
        for line in Path(__file__).with_name("opencv_fields.txt").read_text("utf-8").splitlines()
        if not line.startswith("#")
    )
}
"""The parameter messages that OpenCV's caffe.proto declares, with their fields."""

_READ_AS_TEXT = {
    "interp_param": frozenset(("height", "width", "zoom_factor")),
    "reorg_param": frozenset(("stride",)),
    "resample_param": frozenset(("height", "width", "type", "antialias", "factor")),
    "shuffle_channel_param": frozenset(("group",)),
}
"""Fields of other messages, which OpenCV's layers find by name: words, and numbers without a sign."""


def node_for_opencv(node: Node, message: str, shapes: Sequence[Shape]) -> Node | None:
    """Return the node as it is written for OpenCV; None where OpenCV's layer of that type computes something else.

    `message` is the parameter message that the node's layer reads, `shapes` are the shapes of the node's inputs.
    """
    params = dict(node.params.get(message) or {})
    rule = _RULES.get(node.type)
    spelled = params if rule is None else rule(node, params, shapes)
    fields = FIELDS.get(message, frozenset()) | _READ_AS_TEXT.get(message, frozenset())
    if spelled is None or not set(spelled) <= fields:
        return None
    return replace(node, params={message: spelled} if spelled else {})


# ---- layers


def _with_both_axes(params: ParamValues, *stems: tuple[str, int]) -> ParamValues:
    """Add pad_w to pad_h and so on: OpenCV ignores one of the two without the other.

    `stems` are the names without _h and _w, with their defaults.
    """
    result = dict(params)
    for stem, default in stems:
        pair = [f"{stem}_h", f"{stem}_w"]
        if any(name in params for name in pair):
            result.update({name: params.get(name, default) for name in pair})
    return result


def _convolution(node: Node, params: ParamValues, shapes: Sequence[Shape]) -> ParamValues | None:
    """Accept one map with channels on axis 1 and a kernel no larger than the padded map.

    OpenCV ignores the dilation of a Deconvolution, so only 1 is accepted. DeepLab's `hole` becomes `dilation`.
    """
    result = _with_both_axes(params, ("pad", 0), ("stride", 1))
    holes = [result.pop(name, None) for name in ("hole", "hole_h", "hole_w")]
    if any(h is not None for h in holes):
        both = 1 if holes[0] is None else holes[0]
        result["dilation"] = [both if h is None else h for h in holes[1:]]
    dilations = _per_axis(result.get("dilation", 1))
    if len(shapes) != 1 or len(shapes[0]) != 4 or result.get("axis", 1) != 1 or dilations is None:
        return None
    if node.type == "Deconvolution":
        return result if dilations == [1, 1] else None
    kernel = (
        [result.get(f"kernel_{a}") for a in "hw"] if "kernel_h" in result else _per_axis(result.get("kernel_size"))
    )
    pads = [result.get(f"pad_{a}") for a in "hw"] if "pad_h" in result else _per_axis(result.get("pad", 0))
    if kernel is None or pads is None:
        return None
    windows = zip(shapes[0][2:], kernel, pads, dilations)
    return result if all(n + 2 * (p or 0) > ((k or 1) - 1) * d for n, k, p, d in windows) else None


def _per_axis(value: Any) -> list[Any] | None:
    """Return one value for each of the two spatial axes; None for more than two values."""
    values = list(as_list(value))
    return values * 2 if len(values) == 1 else values if len(values) == 2 else None


def _pooling(node: Node, params: ParamValues, shapes: Sequence[Shape]) -> ParamValues | None:
    """Write the method, and `ceil_mode` instead of `round_mode`.

    Reject a stride larger than the kernel, since OpenCV gives another value for windows beyond the map, and a
    kernel larger than the padded map.
    """
    result = {"pool": "MAX", **params}
    if str(result.pop("round_mode", "CEIL")) in ("FLOOR", "1"):
        result["ceil_mode"] = False
    if params.get("global_pooling"):
        return result
    for n, axis in zip(shapes[0][2:], "hw"):
        kernel, stride, pad = (
            int(params.get(f"{stem}_{axis}", params.get(name, default)) or 0)
            for stem, name, default in (("kernel", "kernel_size", 0), ("stride", "stride", 1), ("pad", "pad", 0))
        )
        if stride > kernel or kernel > n + 2 * pad:
            return None
    return result


def _detection_output(node: Node, params: ParamValues, shapes: Sequence[Shape]) -> ParamValues | None:
    """Write the three fields that OpenCV requires."""
    nms = {"nms_threshold": 0.3, **params.get("nms_param", {})}
    return {"share_location": True, "background_label_id": 0, **params, "nms_param": nms}


def _resample(node: Node, params: ParamValues, shapes: Sequence[Shape]) -> ParamValues | None:
    """Accept only the repetition of pixels."""
    (_, _, h, w), has_reference = shapes[0], len(shapes) > 1
    if has_reference or str(params.get("type")) not in ("NEAREST", "1"):
        return None
    rows, columns = params.get("height"), params.get("width")
    if rows is None or columns is None:
        return None
    return params if rows == columns * h // w and rows % h == 0 else None


def _slice(node: Node, params: ParamValues, shapes: Sequence[Shape]) -> ParamValues | None:
    """Require slice points, and count the axis from the first one."""
    if "slice_point" not in params or "slice_dim" in params:
        return None
    return {**params, "axis": params.get("axis", 1) % len(shapes[0])}


def _scale(node: Node, params: ParamValues, shapes: Sequence[Shape]) -> ParamValues | None:
    """Count the axis from the first one: OpenCV refuses a negative axis in this layer."""
    if len(shapes) > 1 and params.get("bias_term"):
        return None
    return {**params, "axis": params["axis"] % len(shapes[0])} if params.get("axis", 1) < 0 else params


def _if(condition: Callable[[Node, ParamValues, Sequence[Shape]], Any]) -> OpenCVRule:
    """Return a rule that accepts the parameters unchanged if the condition holds, and rejects the layer if not."""
    return lambda node, own, shapes: own if condition(node, own, shapes) else None


_RULES: dict[str, OpenCVRule] = {
    "BatchNorm": _if(lambda node, own, shapes: own.get("use_global_stats", True)),
    # A Concat of the network's input alone returns memory that is not initialised.
    "Concat": _if(lambda node, own, shapes: "concat_dim" not in own and len(shapes) > 1),
    "Convolution": _convolution,
    "Deconvolution": _convolution,
    "DetectionOutput": _detection_output,
    "Eltwise": _if(lambda node, own, shapes: not node.in_place),
    "InnerProduct": _if(lambda node, own, shapes: not own.get("transpose") and own.get("axis", 1) != 0),
    "Interp": _if(lambda node, own, shapes: len(shapes) == 1),
    # OpenCV has another default for alpha and ignores k.
    "LRN": _if(
        lambda node, own, shapes: str(own.get("norm_region")) in ("WITHIN_CHANNEL", "1") and "alpha" in own
    ),
    "MVN": _if(lambda node, own, shapes: "eps" not in own and len(shapes[0]) == 4),
    # OpenCV has a scale per channel only together with a norm per pixel.
    "Normalize": _if(
        lambda node, own, shapes: not own.get("across_spatial", True) or own.get("channel_shared", True)
    ),
    "Permute": _if(lambda node, own, shapes: len(as_list(own.get("order", []))) == len(shapes[0])),
    "Pooling": _pooling,
    # OpenCV's layer reads a field reorg_stride instead of stride, so only its default, 2, is possible.
    "Reorg": _if(lambda node, own, shapes: own == {"stride": 2}),
    "ReLU6": _if(lambda node, own, shapes: not own),
    "Resample": _resample,
    "Reshape": _if(lambda node, own, shapes: "axis" not in own and "num_axes" not in own and own.get("shape")),
    "Scale": _scale,
    "ShuffleChannel": _if(lambda node, own, shapes: len(shapes[0]) == 4),
    "Slice": _slice,
}


# ---- user-defined layers


def require_readable(node: Node) -> None:
    """Raise LayerError for parameters of a user's layer that OpenCV would change or not read."""
    seen: dict[str, str] = {}
    for message, values in node.params.items():
        if not isinstance(values, Mapping):
            _require_text(node, message, values)
        elif set(values) <= FIELDS.get(message, frozenset()):
            _require_unique(node, message, values, seen)
        else:
            _require_text_fields(node, message, values, seen)


def _require_text_fields(node: Node, message: str, values: Mapping[str, Any], seen: dict[str, str]) -> None:
    """Refuse fields whose value changes when OpenCV passes it as text, including those of inner messages."""
    _require_unique(node, message, values, seen)
    for name, value in values.items():
        if isinstance(value, Mapping):
            _require_text_fields(node, f"{message}.{name}", value, seen)
        else:
            _require_text(node, f"{message}.{name}", value)


def _require_unique(node: Node, message: str, values: Mapping[str, Any], seen: dict[str, str]) -> None:
    """Refuse two fields of the same name: OpenCV passes the fields of all messages to a class in one dict."""
    for name, value in values.items():
        if isinstance(value, Mapping):
            continue
        if name in seen:
            _refuse(
                node,
                f"field '{message}.{name}' has the name of '{seen[name]}.{name}', and OpenCV passes one of them",
            )
        seen[name] = message


def _require_text(node: Node, name: str, value: Any) -> None:
    if isinstance(value, (list, tuple)):
        _refuse(node, f"field '{name}' has {len(value)} values, and the class gets only one")
    if type(value) is str:
        _refuse(node, f"field '{name}' is the quoted string \"{value}\", at which OpenCV stops reading")
    if not isinstance(value, str) and not is_truth(value) and value < 0:
        _refuse(node, f"field '{name}' is {value}, and the class gets '{str(value).removeprefix('-')}'")


def _refuse(node: Node, what: str) -> None:
    raise LayerError(
        f"OpenCV passes other parameters to the class of a layer than the file has: {what}. Put them into one "
        'text that the class parses, python_param { param_str: "..." }, which OpenCV passes unchanged',
        node.place,
    )
