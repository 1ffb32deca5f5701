"""The rules of OpenCV's own Caffe reader: what it reads otherwise than Caffe means it, found by running both.

Where a layer can be spelled so that both mean the same it is spelled so; otherwise it is taken apart, and a layer
of the user's that OpenCV would give other parameters is refused. Source: OpenCV 4.14, modules/dnn/src/caffe
(opencv-caffe.proto, caffe_importer.cpp) and the layers in modules/dnn/src/layers; every rule is tested against it.

What holds for the whole file:

* A layer without weights in the .caffemodel has none: fillers are not read, so their values are written.
* An input that nothing reads makes `forward` fail, and a Silence is an output: see writers/caffe/ends.py for this,
  and for the names of outputs.
* Of a field that its caffe.proto lacks (FIELDS) it keeps the text alone: values are strings, the sign of a number
is
  lost, of repeated values one is kept, messages inside are flattened, and a quoted string ends the reading.
* A field that its caffe.proto lacks inside a message that it has makes every other field of the message appear as
  written; a message that it lacks makes the required fields of psroi_pooling_param appear.
* A Power whose power is not 1 is fused with a layer behind it that scales or shifts as if it were 1: a Split keeps
  them apart, see writers/caffe/ends.py.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from anylayer.errors import LayerError
from anylayer.network import Node
from anylayer.writers.caffe.inference import is_truth

Values = dict[str, Any]
Shape = tuple[int, ...]
Rule = Callable[[Node, Values, Sequence[Shape]], "Values | None"]
"""Of a node, its own parameters and the shapes of its inputs: the parameters for OpenCV, None where none mean the
same."""

FIELDS = {
    name: frozenset(fields.split())
    for name, fields in {
        "accuracy_param": "top_k axis ignore_label",
        "argmax_param": "out_max_val top_k axis",
        "batch_norm_param": "use_global_stats moving_average_fraction eps scale_bias",
        "bias_param": "axis num_axes filler",
        "concat_param": "axis concat_dim",
        "contrastive_loss_param": "margin legacy_version",
        "convolution_param": (
            "num_output bias_term pad kernel_size stride dilation pad_h pad_w kernel_h kernel_w stride_h stride_w "
            "group weight_filler bias_filler engine axis force_nd_im2col"
        ),
        "crop_param": "axis offset",
        "data_param": (
            "source batch_size rand_skip backend scale mean_file crop_size mirror force_encoded_color prefetch"
        ),
        "detection_output_param": (
            "num_classes share_location background_label_id nms_param save_output_param code_type "
            "variance_encoded_in_target keep_top_k confidence_threshold normalized_bbox clip"
        ),
        "dropout_param": "dropout_ratio scale_train",
        "dummy_data_param": "data_filler shape num channels height width",
        "eltwise_param": "operation coeff stable_prod_grad",
        "elu_param": "alpha",
        "embed_param": "num_output input_dim bias_term weight_filler bias_filler",
        "exp_param": "base scale shift",
        "flatten_param": "axis end_axis",
        "hdf5_data_param": "source batch_size shuffle",
        "hdf5_output_param": "file_name",
        "hinge_loss_param": "norm",
        "image_data_param": (
            "source batch_size rand_skip shuffle new_height new_width is_color scale mean_file crop_size mirror "
            "root_folder"
        ),
        "infogain_loss_param": "source",
        "inner_product_param": "num_output bias_term weight_filler bias_filler axis transpose",
        "input_param": "shape",
        "log_param": "base scale shift",
        "loss_param": "ignore_label normalization normalize",
        "lrn_param": "local_size alpha beta norm_region k engine",
        "memory_data_param": "batch_size channels height width",
        "mvn_param": "normalize_variance across_channels eps",
        "norm_param": "across_spatial scale_filler channel_shared eps",
        "parameter_param": "shape",
        "permute_param": "order",
        "pooling_param": (
            "pool pad pad_h pad_w kernel_size kernel_h kernel_w stride stride_h stride_w engine global_pooling "
            "ceil_mode"
        ),
        "power_param": "power scale shift",
        "prelu_param": "filler channel_shared",
        "prior_box_param": (
            "min_size max_size aspect_ratio flip clip variance img_size img_h img_w step step_h step_w offset "
            "offset_h offset_w width height"
        ),
        "proposal_param": "feat_stride base_size min_size ratio scale pre_nms_topn post_nms_topn nms_thresh",
        "psroi_pooling_param": "spatial_scale output_dim group_size",
        "python_param": "module layer param_str share_in_parallel",
        "recurrent_param": "num_output weight_filler bias_filler debug_info expose_hidden",
        "reduction_param": "operation axis coeff",
        "relu_param": "negative_slope engine",
        "reshape_param": "shape axis num_axes",
        "roi_pooling_param": "pooled_h pooled_w spatial_scale",
        "scale_param": "axis num_axes filler bias_term bias_filler",
        "sigmoid_param": "engine",
        "slice_param": "axis slice_point slice_dim",
        "softmax_param": "engine axis",
        "spp_param": "pyramid_height pool engine",
        "tanh_param": "engine",
        "threshold_param": "threshold",
        "tile_param": "axis tiles",
        "transform_param": "scale mirror crop_size mean_file mean_value force_color force_gray",
        "window_data_param": (
            "source scale mean_file batch_size crop_size mirror fg_threshold bg_threshold fg_fraction context_pad "
            "crop_mode cache_images root_folder"
        ),
    }.items()
}
"""The parameter messages that OpenCV's caffe.proto declares, with their fields."""

_READ_AS_TEXT = {
    "interp_param": frozenset(("height", "width", "zoom_factor")),
    "reorg_param": frozenset(("stride",)),
    "resample_param": frozenset(("height", "width", "type", "antialias", "factor")),
    "shuffle_channel_param": frozenset(("group",)),
}
"""Messages that it lacks and whose fields its layers find by name: numbers without a sign, and words."""


def told(node: Node, message: str, shapes: Sequence[Shape]) -> Node | None:
    """Return the node as it is to be written for OpenCV; None where its layer of that type does not compute the
    same.

    `message` is the one that the node's layer reads, `shapes` are those of its inputs.
    """
    own = dict(node.params.get(message) or {})
    rule = _RULES.get(node.type)
    spelled = own if rule is None else rule(node, own, shapes)
    known = FIELDS.get(message, frozenset()) | _READ_AS_TEXT.get(message, frozenset())
    if spelled is None or not set(spelled) <= known:
        return None
    return replace(node, params={message: spelled} if spelled else {})


# ---- layers


def _listed(value: Any) -> list[Any]:
    return list(value) if isinstance(value, (list, tuple)) else [value]


def _both(own: Values, *stems: tuple[str, int]) -> Values:
    """With both of pad_h and pad_w (and so on) where one is written: OpenCV passes over one alone."""
    found = dict(own)
    for stem, default in stems:
        pair = [f"{stem}_h", f"{stem}_w"]
        if any(name in own for name in pair):
            found.update({name: own.get(name, default) for name in pair})
    return found


def _convolution(node: Node, own: Values, shapes: Sequence[Shape]) -> Values | None:
    """One map, channels on axis 1, no kernel that overhangs the padded map; a deconvolution's dilation is passed
    over, and DeepLab's hole is not known."""
    found = _both(own, ("pad", 0), ("stride", 1))
    holes = [found.pop(name, None) for name in ("hole", "hole_h", "hole_w")]
    if any(h is not None for h in holes):
        both = 1 if holes[0] is None else holes[0]
        found["dilation"] = [both if h is None else h for h in holes[1:]]
    dilations = _axes(found.get("dilation", 1))
    if len(shapes) != 1 or len(shapes[0]) != 4 or found.get("axis", 1) != 1 or dilations is None:
        return None
    if node.type == "Deconvolution":
        return found if dilations == [1, 1] else None
    kernel = [found.get(f"kernel_{a}") for a in "hw"] if "kernel_h" in found else _axes(found.get("kernel_size"))
    pads = [found.get(f"pad_{a}") for a in "hw"] if "pad_h" in found else _axes(found.get("pad", 0))
    if kernel is None or pads is None:
        return None
    windows = zip(shapes[0][2:], kernel, pads, dilations)
    return found if all(n + 2 * (p or 0) > ((k or 1) - 1) * d for n, k, p, d in windows) else None


def _axes(value: Any) -> list[Any] | None:
    """A value for each of two axes."""
    values = _listed(value)
    return values * 2 if len(values) == 1 else values if len(values) == 2 else None


def _pooling(node: Node, own: Values, shapes: Sequence[Shape]) -> Values | None:
    """The method must be written, windows that see nothing have another value, and none is larger than the map;
    how many there are is `ceil_mode`'s alone to say."""
    found = {"pool": "MAX", **own}
    if str(found.pop("round_mode", "CEIL")) in ("FLOOR", "1"):
        found["ceil_mode"] = False
    if own.get("global_pooling"):
        return found
    for n, axis in zip(shapes[0][2:], "hw"):
        kernel, stride, pad = (
            int(own.get(f"{stem}_{axis}", own.get(name, default)) or 0)
            for stem, name, default in (("kernel", "kernel_size", 0), ("stride", "stride", 1), ("pad", "pad", 0))
        )
        if stride > kernel or kernel > n + 2 * pad:
            return None
    return found


def _detection_output(node: Node, own: Values, shapes: Sequence[Shape]) -> Values | None:
    """Three fields must be written."""
    suppression = {"nms_threshold": 0.3, **own.get("nms_param", {})}
    return {"share_location": True, "background_label_id": 0, **own, "nms_param": suppression}


def _resample(node: Node, own: Values, shapes: Sequence[Shape]) -> Values | None:
    """Only repeated pixels are the same."""
    (_, _, h, w), like = shapes[0], len(shapes) > 1
    whole = not like and str(own.get("type")) in ("NEAREST", "1") and "height" in own and "width" in own
    return own if whole and own["height"] == own["width"] * h // w and own["height"] % h == 0 else None


def _slice(node: Node, own: Values, shapes: Sequence[Shape]) -> Values | None:
    """The cuts must be written, and the axis be counted from the first."""
    if "slice_point" not in own or "slice_dim" in own:
        return None
    return {**own, "axis": own.get("axis", 1) % len(shapes[0])}


def _when(condition: Callable[[Node, Values, Sequence[Shape]], Any]) -> Rule:
    """The rule that takes a layer as it is under a condition."""
    return lambda node, own, shapes: own if condition(node, own, shapes) else None


_RULES: dict[str, Rule] = {
    "BatchNorm": _when(lambda node, own, shapes: own.get("use_global_stats", True)),
    "Concat": _when(lambda node, own, shapes: "concat_dim" not in own),
    "Convolution": _convolution,
    "Deconvolution": _convolution,
    "DetectionOutput": _detection_output,
    "Eltwise": _when(lambda node, own, shapes: not node.in_place),
    "InnerProduct": _when(lambda node, own, shapes: not own.get("transpose") and own.get("axis", 1) != 0),
    "Interp": _when(lambda node, own, shapes: len(shapes) == 1),
    # The default of alpha is another one, and k is passed over.
    "LRN": _when(
        lambda node, own, shapes: str(own.get("norm_region")) in ("WITHIN_CHANNEL", "1") and "alpha" in own
    ),
    "MVN": _when(lambda node, own, shapes: "eps" not in own and len(shapes[0]) == 4),
    # A scale for each channel goes with a length for each pixel only.
    "Normalize": _when(
        lambda node, own, shapes: not own.get("across_spatial", True) or own.get("channel_shared", True)
    ),
    "Permute": _when(lambda node, own, shapes: len(_listed(own.get("order", []))) == len(shapes[0])),
    "Pooling": _pooling,
    # The stride that its layer reads is called reorg_stride: the default, 2, is all that there is.
    "Reorg": _when(lambda node, own, shapes: own == {"stride": 2}),
    "ReLU6": _when(lambda node, own, shapes: not own),
    "Resample": _resample,
    "Reshape": _when(lambda node, own, shapes: "axis" not in own and "num_axes" not in own and own.get("shape")),
    "Scale": _when(lambda node, own, shapes: len(shapes) == 1 or not own.get("bias_term")),
    "ShuffleChannel": _when(lambda node, own, shapes: len(shapes[0]) == 4),
    "Slice": _slice,
}


# ---- layers of the user's


def require_readable(node: Node) -> None:
    """Refuse parameters of a layer of the user's that OpenCV would give its class otherwise, or not read at
    all."""
    seen: dict[str, str] = {}
    for message, values in node.params.items():
        if not isinstance(values, Mapping):
            _require(node, message, values, "a layer")
        elif set(values) <= FIELDS.get(message, frozenset()):
            _require_apart(node, message, values, seen)
        else:
            _require_texts(node, message, values, seen)


def _require_texts(node: Node, message: str, values: Mapping[str, Any], seen: dict[str, str]) -> None:
    _require_apart(node, message, values, seen)
    for name, value in values.items():
        if isinstance(value, Mapping):
            _require_texts(node, f"{message}.{name}", value, seen)
        else:
            _require(node, f"{message}.{name}", value, message)


def _require_apart(node: Node, message: str, values: Mapping[str, Any], seen: dict[str, str]) -> None:
    """Refuse fields of one name: OpenCV gives a class the fields of all messages in one dict."""
    for name, value in values.items():
        if isinstance(value, Mapping):
            continue
        if name in seen:
            _refuse(
                node,
                f"field '{message}.{name}' has the name of '{seen[name]}.{name}', and its class gets one of them",
            )
        seen[name] = message


def _require(node: Node, name: str, value: Any, where: str) -> None:
    if isinstance(value, (list, tuple)):
        _refuse(node, f"field '{name}' has {len(value)} values, of which its class gets one")
    if type(value) is str:
        _refuse(node, f"field '{name}' is the quoted string \"{value}\", at which reading ends")
    if not isinstance(value, str) and not is_truth(value) and value < 0:
        _refuse(node, f"field '{name}' is {value}, and its class gets '{str(value).removeprefix('-')}'")


def _refuse(node: Node, what: str) -> None:
    raise LayerError(
        f"OpenCV gives the class of a layer other parameters than the file has: {what}. Put them into one text "
        'that the class takes apart, python_param { param_str: "..." }, which OpenCV reads as it is',
        node.place,
    )
