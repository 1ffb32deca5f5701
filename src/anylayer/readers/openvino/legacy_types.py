"""The layer types of IR v2 to v7, each translated to Caffe's layers.

Each function reads the attributes of one layer type and adds Caffe nodes to the layer.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from anylayer.errors import LayerError, need
from anylayer.layer.arguments import axis_of
from anylayer.readers.openvino.legacy_layer import LegacyLayer, flag_as_int
from anylayer.readers.openvino.legacy_windows import (
    convolution,
    deconvolution,
    parameter_params,
    pooling,
    slice_output,
)


@dataclass(frozen=True)
class SameFields:
    """The translation of a layer whose attributes are the fields of one Caffe message.

    `fields` have the same name in both; `renamed` maps an attribute to its field. An attribute that the file lacks
    is left out.
    """

    type: str
    message: str = ""
    fields: tuple[str, ...] = ()
    renamed: Mapping[str, str] | None = None
    words: tuple[str, ...] = ()
    """Fields that are words: "caffe.PriorBoxParameter.CENTER_SIZE" becomes CENTER_SIZE."""
    dropped: tuple[str, ...] = ()
    """Attributes that do not affect the layer's values."""
    computed: Mapping[str, Callable[[LegacyLayer], Any]] = field(default_factory=dict)
    """Fields whose values are read with a check or a default."""
    inputs: int | None = None
    """The number of inputs that are kept, if it is not all."""

    def __call__(self, layer: LegacyLayer) -> None:
        for name in self.dropped:
            layer.value(name)
        params: dict[str, Any] = {}
        names = {**{f: f for f in self.fields}, **(self.renamed or {})}
        for attribute, name in names.items():
            value = layer.value(attribute)
            if value is None or value == "":
                continue
            params[name] = layer.word(attribute).upper() if name in self.words else flag_as_int(value)
        params.update((name, read(layer)) for name, read in self.computed.items())
        layer.add(self.type, {self.message: params} if self.message else {}, inputs=layer.inputs[: self.inputs])


def _norm_region(layer: LegacyLayer) -> str:
    region = layer.word("region", default="across").lower()
    need(region in ("across", "same"), f"region must be across or same, got '{region}'")
    return "ACROSS_CHANNELS" if region == "across" else "WITHIN_CHANNEL"


_LRN = SameFields("LRN", "lrn_param", computed={
    "norm_region": _norm_region,
    "local_size": lambda r: r.integer("local-size", "local_size", "size", default=5),
    "alpha": lambda r: r.number("alpha", default=1.0),
    "beta": lambda r: r.number("beta", default=0.75),
    "k": lambda r: r.number("k", "bias", default=1.0),
})  # fmt: skip
_CLAMP = SameFields("Clip", "clip_param", computed={
    "min": lambda r: r.number("min"), "max": lambda r: r.number("max"),
})  # fmt: skip
_RELU6 = SameFields("Clip", "clip_param", computed={
    "min": lambda _: 0.0, "max": lambda r: r.number("n", default=6.0),
})  # fmt: skip


def fully_connected(layer: LegacyLayer) -> None:
    """Translate FullyConnected and InnerProduct to InnerProduct."""
    outputs = layer.integer("out-size", "num_output")
    inner = int(np.prod(layer.shape()[1:]))
    kernels = layer.weights((outputs, inner))
    bias = layer.weights((outputs,), "biases", optional=True)
    params = {"num_output": outputs, "bias_term": int(bias is not None or not layer.blobs)}
    layer.add("InnerProduct", {"inner_product_param": params}, blobs=[kernels, bias])


def scale_shift(layer: LegacyLayer) -> None:
    """Translate ScaleShift to Scale or Bias.

    Its weights and biases have one value per channel, one value per element of a sample, or a single value.
    """
    layer.value("broadcast", "type")
    need(len(layer.inputs) == 1, f"ScaleShift with {len(layer.inputs)} inputs is not supported, expected 1")
    shape = layer.shape()
    arrays = {}
    for name in ("weights", "biases"):
        blob = layer.blobs.get(name)
        if blob is None:
            continue
        sample = int(np.prod(shape[1:]))
        need(
            blob.size in (1, shape[1], sample),
            f"its {name} have {blob.size} values, expected 1, {shape[1]} (channels) or {sample} (elements)",
        )
        arrays[name] = blob
    per_element = any(b.size not in (1, shape[1]) for b in arrays.values())
    full = shape[1:] if per_element else shape[1:2]
    blobs = {
        name: np.broadcast_to(b.reshape(full if b.size > shape[1] else (-1, *[1] * (len(full) - 1))), full)
        for name, b in arrays.items()
    }
    axes = {"axis": 1, "num_axes": -1 if per_element else 1}
    if "weights" in blobs or not arrays:
        params = {**axes, "bias_term": int("biases" in blobs or not arrays)}
        layer.add("Scale", {"scale_param": params}, blobs=[blobs.get("weights"), blobs.get("biases")])
    else:
        layer.add("Bias", {"bias_param": axes}, blobs=[blobs["biases"]])


def batch_norm(layer: LegacyLayer) -> None:
    """Translate BatchNormalization to BatchNorm. Its weights are the variances, its biases the means."""
    channels = layer.shape()[1]
    variance, mean = layer.weights((channels,)), layer.weights((channels,), "biases")
    params = {"eps": layer.number("epsilon", "eps", default=1e-5), "use_global_stats": 1}
    blobs = [] if mean is None else [mean, variance, np.ones(1, np.float32)]
    layer.add("BatchNorm", {"batch_norm_param": params}, blobs=blobs)


def eltwise(layer: LegacyLayer) -> None:
    """Translate Eltwise. The difference of two inputs ("sub") becomes a sum with coefficients 1 and -1."""
    operation = layer.word("operation", default="sum").lower() or "sum"
    coeff = layer.value("coeff", default=[])
    coeff = [float(c) for c in (coeff if isinstance(coeff, list) else [coeff]) if c != ""]
    layer.value("out-size")
    if operation == "sub":
        need(len(layer.inputs) == 2 and not coeff, "operation 'sub' needs two inputs and no coeff")
        operation, coeff = "sum", [1.0, -1.0]
    operations = {"sum": "SUM", "mul": "PROD", "prod": "PROD", "max": "MAX"}
    supported = ", ".join([*operations, "sub"])
    need(operation in operations, f"operation '{operation}' is not supported; supported operations: {supported}")
    shapes = {tuple(port.shape) for port in layer.layer.inputs}
    need(len(shapes) == 1, f"inputs of different shapes are not supported, got {sorted(map(str, shapes))}")
    params: dict[str, Any] = {"operation": operations[operation]}
    if coeff:
        params["coeff"] = coeff
    layer.add("Eltwise", {"eltwise_param": params})


def split(layer: LegacyLayer) -> None:
    """Translate Split and Slice to Slice. The output ports state the sizes of the parts."""
    axis = layer.integer("axis", default=1)
    layer.value("out_sizes", "num_split")
    axis_of(axis, len(layer.shape()))  # refuses an axis that does not exist
    ends = np.cumsum([layer.out_shape(i)[axis] for i in range(len(layer.outputs))])
    need(
        int(ends[-1]) == layer.shape()[axis],
        f"the sizes of its outputs along axis {axis} sum to {ends[-1]}, but its input has {layer.shape()[axis]}",
    )
    if len(layer.outputs) == 1:
        layer.add("Split")
        return
    layer.add("Slice", {"slice_param": {"axis": axis, "slice_point": [int(e) for e in ends[:-1]]}})


def activation(layer: LegacyLayer) -> None:
    """Translate Activation. Its attribute 'type' selects the function."""
    kind = layer.word("type").lower()
    functions: dict[str, Callable[[LegacyLayer], None]] = {
        "sigmoid": SameFields("Sigmoid"),
        "tanh": SameFields("TanH"),
        "relu": SameFields("ReLU", "relu_param", ("negative_slope",)),
        "elu": SameFields("ELU", "elu_param", ("alpha",)),
        "relu6": _RELU6,
        "clamp": _CLAMP,
        "exp": SameFields("Exp"),
    }
    need(kind in functions, f"activation type '{kind}' is not supported; supported types: {', '.join(functions)}")
    functions[kind](layer)


def prelu(layer: LegacyLayer) -> None:
    """Translate PReLU. A single slope is shared by all channels."""
    channels = layer.shape()[1]
    layer.value("filler_type", "filler_value", "min", "max", "mean", "std", "sparse", "variance_norm")
    blob = layer.blobs.get("weights")
    shared = layer.flag("channel_shared") or (blob is not None and blob.size == 1 < channels)
    slopes = layer.weights((1,) if shared else (channels,))
    layer.add("PReLU", {"prelu_param": {"channel_shared": int(shared)}}, blobs=[slopes])


def reshape(layer: LegacyLayer) -> None:
    """Translate Reshape, Flatten, Squeeze and Unsqueeze to Reshape.

    The output port states the shape. The batch size is copied from the input if both are equal in the file.
    """
    layer.value("dim", "axis", "num_axes", "end_axis", "special_zero")
    before, after = layer.shape(), layer.out_shape()
    need(np.prod(before) == np.prod(after), f"shape {before} cannot be reshaped to {after}")
    need(len(after) > 0, "a scalar output is not supported")
    dims = [0 if i == 0 and before and before[0] == d else d for i, d in enumerate(after)]
    layer.add("Reshape", {"reshape_param": {"shape": {"dim": dims}}}, inputs=layer.inputs[:1])


def crop(layer: LegacyLayer) -> None:
    """Translate Crop to Slice. The output port states the sizes, the attributes the offsets."""
    axes = layer.integers("axis")
    offsets = layer.integers("offset", "crop_begin")
    layer.value("dim", "crop_end")
    shape, out = layer.shape(), layer.out_shape()
    need(len(axes) == len(offsets), f"'axis' and 'offset' must have the same length, got {axes} and {offsets}")
    need(len(shape) == len(out), f"an input of shape {shape} cannot be cropped to {out}")
    begins = [0] * len(shape)
    for axis, offset in zip(axes, offsets):
        begins[axis_of(axis, len(shape))] = offset
    slice_output(layer, layer.inputs[0], shape, begins, out)


def interp(layer: LegacyLayer) -> None:
    """Translate Interp: bilinear resizing with aligned corners. The output port states the size."""
    layer.value("factor", "shrink_factor", "zoom_factor", "height", "width")
    shape, out = layer.shape(), layer.out_shape()
    aligned = layer.flag("align_corners", default=True)
    need(
        aligned or shape == out,
        "align_corners=0 is not supported, because no Caffe layer computes it. Define Interp in a layers file",
    )
    params: dict[str, Any] = {"height": out[2], "width": out[3]}
    for name in ("pad_beg", "pad_end"):
        params[name] = layer.integer(name, default=0)
    layer.add("Interp", {"interp_param": params}, inputs=layer.inputs[:1])


def normalize(layer: LegacyLayer) -> None:
    """Translate Normalize."""
    channels = layer.shape()[1]
    shared = layer.flag("channel_shared")
    params = {
        "across_spatial": int(layer.flag("across_spatial")),
        "channel_shared": int(shared),
        "eps": layer.number("eps", default=1e-10),
    }
    layer.value("normalize_eps")
    blob = layer.blobs.get("weights")
    scale = None if blob is None else layer.weights((1,) if shared else (channels,))
    layer.add("Normalize", {"norm_param": params}, blobs=[scale])


def _groups(layer: LegacyLayer) -> int:
    need(layer.integer("axis", default=1) == 1, "only axis 1 is supported")
    return layer.integer("group", default=1)


def log_softmax(layer: LegacyLayer) -> None:
    """Translate LogSoftmax to Softmax and Log."""
    middle = layer.inner_name("softmax")
    params = {"softmax_param": {"axis": layer.integer("axis", default=1)}}
    layer.add("Softmax", params, outputs=[middle], name="softmax")
    layer.add("Log", inputs=[middle], name="log")


def const(layer: LegacyLayer) -> None:
    """Translate Const, whose output is its only blob, to Parameter."""
    need(len(layer.outputs) == 1, f"it has {len(layer.outputs)} outputs, expected 1")
    need(layer.blobs, "its values are not in the file")
    values = layer.weights(layer.out_shape(), next(iter(layer.blobs)))
    layer.add("Parameter", parameter_params(layer.out_shape()), blobs=[values])


_PRIOR = ("min_size", "max_size", "aspect_ratio", "flip", "clip", "variance", "step", "offset")
_DROPPED_PRIOR = ("img_size", "img_h", "img_w", "step_h", "step_w", "scale_all_sizes", "fixed_size", "fixed_ratio")


def prior_box(layer: LegacyLayer) -> None:
    """Translate PriorBox."""
    for name in ("fixed_size", "fixed_ratio", "density"):
        need(layer.value(name, default="") in ("", []), f"{name} is not supported")
    need(layer.flag("scale_all_sizes", default=True), "scale_all_sizes=0 is not supported")
    SameFields("PriorBox", "prior_box_param", _PRIOR, dropped=_DROPPED_PRIOR)(layer)


def prior_box_clustered(layer: LegacyLayer) -> None:
    """Translate PriorBoxClustered."""
    fields = ("width", "height", "clip", "variance", "step", "step_h", "step_w", "offset")
    dropped = ("img_size", "img_h", "img_w", "flip", "min_size", "max_size", "aspect_ratio")
    for name in ("step", "step_h", "step_w"):  # 0 means that no step is given
        if layer.value(name) == 0:
            del layer.attributes[name]
    SameFields("PriorBoxClustered", "prior_box_param", fields, dropped=dropped)(layer)


def detection_output(layer: LegacyLayer) -> None:
    """Translate DetectionOutput."""
    need(layer.number("eta", default=1.0) == 1, "an eta other than 1 is not supported")
    nms: dict[str, Any] = {"nms_threshold": layer.number("nms_threshold", default=0.3)}
    if layer.value("top_k") is not None:
        nms["top_k"] = layer.integer("top_k")
    fields = (
        "num_classes", "share_location", "background_label_id", "code_type", "keep_top_k",
        "variance_encoded_in_target", "confidence_threshold", "normalized", "input_width", "input_height",
    )  # fmt: skip
    dropped = (
        "visualize", "visualize_threshold", "num_orient_classes", "interpolate_orientation", "save_file",
        "label_map_file", "name_size_file", "output_directory", "output_format", "output_name_prefix",
        "num_test_image", "height", "width", "height_scale", "width_scale", "pad_mode", "pad_value", "prob",
        "resize_mode", "interp_mode",
    )  # fmt: skip
    for name in ("decrease_label_id", "clip_before_nms", "clip_after_nms", "clip"):
        need(not layer.flag(name), f"{name}=1 is not supported")
    SameFields("DetectionOutput", "detection_output_param", fields, words=("code_type",), dropped=dropped)(layer)
    params = layer.nodes[-1].params["detection_output_param"]
    params["nms_param"] = nms
    if params.get("background_label_id") == -1:  # -1 means no background class in the IR; Caffe aborts on it
        params["background_label_id"] = params["num_classes"]


def region_yolo(layer: LegacyLayer) -> None:
    """Translate RegionYolo."""
    flatten = {name: layer.integer(name) for name in ("axis", "end_axis") if name in layer.attributes}
    fields = ("coords", "classes", "num", "do_softmax", "mask", "anchors")
    dropped = (
        "bias_match", "jitter", "rescore", "object_scale", "noobject_scale", "class_scale", "coord_scale",
        "absolute", "thresh", "random", "truth_thresh", "ignore_thresh", "softmax",
    )  # fmt: skip
    SameFields("RegionYolo", "region_yolo_param", fields, dropped=dropped)(layer)
    if flatten:
        layer.nodes[-1].params["flatten_param"] = flatten


TYPES: dict[str, Callable[[LegacyLayer], None]] = {
    "Convolution": convolution,
    "Deconvolution": deconvolution,
    "Pooling": pooling,
    "FullyConnected": fully_connected,
    "InnerProduct": fully_connected,
    "ScaleShift": scale_shift,
    "BatchNormalization": batch_norm,
    "Norm": _LRN,
    "LRN": _LRN,
    "Eltwise": eltwise,
    "Concat": SameFields("Concat", "concat_param", ("axis",)),
    "Split": split,
    "Slice": split,
    "Power": SameFields("Power", "power_param", computed={
        "power": lambda r: r.number("power", default=1.0),
        "scale": lambda r: r.number("scale", default=1.0),
        "shift": lambda r: r.number("shift", default=0.0),
    }),
    "Clamp": _CLAMP,
    "Activation": activation,
    "ReLU6": _RELU6,
    "PReLU": prelu,
    "ReLU": SameFields("ReLU", "relu_param", ("negative_slope",)),
    "ELU": SameFields("ELU", "elu_param", ("alpha",)),
    "Sigmoid": SameFields("Sigmoid"),
    "TanH": SameFields("TanH"),
    "Tanh": SameFields("TanH"),
    "Exp": SameFields("Exp"),
    "Log": SameFields("Log"),
    "Abs": SameFields("AbsVal"),
    "Reshape": reshape,
    "Flatten": reshape,
    "Squeeze": reshape,
    "Unsqueeze": reshape,
    "SoftMax": SameFields("Softmax", "softmax_param", ("axis",)),
    "Softmax": SameFields("Softmax", "softmax_param", ("axis",)),
    "LogSoftmax": log_softmax,
    "Permute": SameFields("Permute", "permute_param", computed={"order": lambda r: r.integers("order")}, inputs=1),
    "Tile": SameFields("Tile", "tile_param", inputs=1, computed={
        "axis": lambda r: r.integer("axis", default=1), "tiles": lambda r: r.integer("tiles"),
    }),
    "Crop": crop,
    "Interp": interp,
    "Resample": SameFields("Resample", "resample_param", inputs=1,
        dropped=("factor", "width", "height", "fx", "fy"),
        computed={
            "type": lambda r: r.word("type", default="LINEAR").upper(),
            "height": lambda r: r.out_shape()[2],
            "width": lambda r: r.out_shape()[3],
            "antialias": lambda r: int(r.flag("antialias", default=True)),
        },
    ),
    "Normalize": normalize,
    "MVN": SameFields("MVN", "mvn_param", ("normalize_variance", "across_channels", "eps")),
    "GRN": SameFields("GRN", "grn_param", ("bias",)),
    "ArgMax": SameFields("ArgMax", "argmax_param", ("axis", "out_max_val", "top_k")),
    "ShuffleChannels": SameFields("ShuffleChannel", "shuffle_channel_param", computed={"group": _groups}),
    "Dropout": SameFields("Split", dropped=("dropout_ratio", "scale_train", "ratio")),
    "Copy": SameFields("Split"),
    "Const": const,
    "PriorBox": prior_box,
    "PriorBoxClustered": prior_box_clustered,
    "DetectionOutput": detection_output,
    "RegionYolo": region_yolo,
    "ReorgYolo": SameFields("ReorgYolo", "reorg_yolo_param", ("stride",)),
    "PSROIPooling": SameFields(
        "PSROIPooling",
        "psroi_pooling_param",
        ("spatial_scale", "output_dim", "group_size"),
        dropped=("no_trans", "part_size", "sample_per_part", "pooled_width", "pooled_height"),
    ),
    "ROIPooling": SameFields(
        "ROIPooling", "roi_pooling_param", ("pooled_h", "pooled_w", "spatial_scale"), dropped=("method",)
    ),
    "Proposal": SameFields(
        "Proposal",
        "proposal_param",
        (
            "feat_stride", "base_size", "min_size", "ratio", "scale", "pre_nms_topn", "post_nms_topn",
            "nms_thresh",
        ),
        dropped=("framework",),
    ),
    "CTCGreedyDecoder": SameFields("CTCGreedyDecoder", "ctc_decoder_param", ("ctc_merge_repeated",)),
}  # fmt: skip
"""The translation of each layer type of the IR."""


def translate(layer: LegacyLayer) -> None:
    """Translate a layer of a known type into `layer.nodes`.

    Raise LayerError for what Caffe's layers do not compute.
    """
    TYPES[layer.type](layer)
    layer.refuse_unread()


def ambiguous_type(layer: LegacyLayer) -> LayerError:
    """Return the error for a type that Caffe has too, but that may mean something else in an IR."""
    return LayerError(
        f"layers of type {layer.type} in IR v2 to v7 are not supported. Define a class for it in a layers file"
    )
