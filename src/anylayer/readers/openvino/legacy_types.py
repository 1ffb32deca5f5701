"""The layer types of IR v2 to v7, each spelled as the layer of Caffe's that it is."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from anylayer.errors import LayerError, need
from anylayer.readers.openvino.legacy_layer import Legacy, plain
from anylayer.readers.openvino.legacy_windows import convolution, cut, deconvolution, parameter, pooling


@dataclass(frozen=True)
class Same:
    """A layer whose attributes are the fields of one message of Caffe's, most of them by the same name."""

    type: str
    message: str = ""
    fields: tuple[str, ...] = ()
    renamed: Mapping[str, str] | None = None
    words: tuple[str, ...] = ()
    """Fields that are words: "caffe.PriorBoxParameter.CENTER_SIZE" is CENTER_SIZE."""
    dropped: tuple[str, ...] = ()
    """Attributes that no value depends on."""

    def __call__(self, layer: Legacy) -> None:
        for name in self.dropped:
            layer.value(name)
        params: dict[str, Any] = {}
        names = {**{f: f for f in self.fields}, **(self.renamed or {})}
        for attribute, field in names.items():
            value = layer.value(attribute)
            if value is None or value == "":
                continue
            if field in self.words:
                params[field] = str(value).rpartition(".")[2].upper()
            else:
                params[field] = plain(value)
        layer.add(self.type, {self.message: params} if self.message else {})


def power(layer: Legacy) -> None:
    """Power."""
    names = ("power", "scale", "shift")
    layer.add("Power", {"power_param": {n: layer.number(n, default=float(n != "shift")) for n in names}})


def fully_connected(layer: Legacy) -> None:
    """FullyConnected, InnerProduct."""
    outputs = layer.whole("out-size", "num_output")
    inner = int(np.prod(layer.shape()[1:]))
    kernels = layer.weights((outputs, inner))
    bias = layer.weights((outputs,), "biases", optional=True)
    params = {"num_output": outputs, "bias_term": int(bias is not None or not layer.blobs)}
    layer.add("InnerProduct", {"inner_product_param": params}, blobs=[kernels, bias])


def scale_shift(layer: Legacy) -> None:
    """ScaleShift: a factor and a shift a channel, or one of either for all."""
    layer.value("broadcast", "type")
    need(len(layer.inputs) == 1, f"takes one input here, got {len(layer.inputs)}")
    shape = layer.shape()
    found = {}
    for name in ("weights", "biases"):
        blob = layer.blobs.get(name)
        if blob is None:
            continue
        whole = int(np.prod(shape[1:]))
        need(
            blob.size in (1, shape[1], whole),
            f"its {name} are {blob.size} numbers; 1, {shape[1]} (channels) or {whole} (cells) are needed",
        )
        found[name] = blob
    cells = any(b.size not in (1, shape[1]) for b in found.values())
    full = shape[1:] if cells else shape[1:2]
    spread = {
        name: np.broadcast_to(b.reshape(full if b.size > shape[1] else (-1, *[1] * (len(full) - 1))), full)
        for name, b in found.items()
    }
    place = {"axis": 1, "num_axes": -1 if cells else 1}
    if "weights" in spread or not found:
        params = {**place, "bias_term": int("biases" in spread or not found)}
        layer.add("Scale", {"scale_param": params}, blobs=[spread.get("weights"), spread.get("biases")])
    else:
        layer.add("Bias", {"bias_param": place}, blobs=[spread["biases"]])


def batch_norm(layer: Legacy) -> None:
    """BatchNormalization: its weights are variances, its biases means."""
    channels = layer.shape()[1]
    variance, mean = layer.weights((channels,)), layer.weights((channels,), "biases")
    params = {"eps": layer.number("epsilon", "eps", default=1e-5), "use_global_stats": 1}
    blobs = [] if mean is None else [mean, variance, np.ones(1, np.float32)]
    layer.add("BatchNorm", {"batch_norm_param": params}, blobs=blobs)


def norm(layer: Legacy) -> None:
    """Norm, LRN."""
    region = layer.word("region", default="across").lower()
    need(region in ("across", "same"), f"region is across or same, got '{region}'")
    params = {
        "local_size": layer.whole("local-size", "local_size", "size", default=5),
        "alpha": layer.number("alpha", default=1.0),
        "beta": layer.number("beta", default=0.75),
        "k": layer.number("k", "bias", default=1.0),
        "norm_region": "ACROSS_CHANNELS" if region == "across" else "WITHIN_CHANNEL",
    }
    layer.add("LRN", {"lrn_param": params})


def eltwise(layer: Legacy) -> None:
    """Eltwise."""
    operation = layer.word("operation", default="sum").lower() or "sum"
    coeff = layer.value("coeff", default=[])
    coeff = [float(c) for c in (coeff if isinstance(coeff, list) else [coeff]) if c != ""]
    layer.value("out-size")
    if operation == "sub":
        need(len(layer.inputs) == 2 and not coeff, "'sub' takes two inputs and no coeff")
        operation, coeff = "sum", [1.0, -1.0]
    known = {"sum": "SUM", "mul": "PROD", "prod": "PROD", "max": "MAX"}
    need(operation in known, f"operation '{operation}' is not supported; {', '.join([*known, 'sub'])} are")
    shapes = {tuple(port.shape) for port in layer.drawn.inputs}
    need(len(shapes) == 1, f"inputs of different shapes are not supported, got {sorted(map(str, shapes))}")
    params: dict[str, Any] = {"operation": known[operation]}
    if coeff:
        params["coeff"] = coeff
    layer.add("Eltwise", {"eltwise_param": params})


def concat(layer: Legacy) -> None:
    """Concat."""
    axis = layer.whole("axis", default=1)
    layer.add("Concat", {"concat_param": {"axis": axis}})


def split(layer: Legacy) -> None:
    """Split, Slice: parts along an axis, as long as the output ports say."""
    axis = layer.whole("axis", default=1)
    layer.value("out_sizes", "num_split")
    rank = len(layer.shape())
    need(-rank <= axis < rank, f"axis must lie in {-rank}..{rank - 1}, got {axis}")
    ends = np.cumsum([layer.out_shape(i)[axis] for i in range(len(layer.outputs))])
    need(
        int(ends[-1]) == layer.shape()[axis],
        f"its outputs have {ends[-1]} cells of axis {axis}, the input has {layer.shape()[axis]}",
    )
    if len(layer.outputs) == 1:
        layer.add("Split")
        return
    layer.add("Slice", {"slice_param": {"axis": axis, "slice_point": [int(e) for e in ends[:-1]]}})


def clamp(layer: Legacy) -> None:
    """Clamp."""
    layer.add("Clip", {"clip_param": {"min": layer.number("min"), "max": layer.number("max")}})


def activation(layer: Legacy) -> None:
    """Activation: the type of activation is an attribute."""
    kind = layer.word("type").lower()
    known: dict[str, Callable[[Legacy], None]] = {
        "sigmoid": Same("Sigmoid"),
        "tanh": Same("TanH"),
        "relu": Same("ReLU", "relu_param", ("negative_slope",)),
        "elu": Same("ELU", "elu_param", ("alpha",)),
        "relu6": relu6,
        "clamp": clamp,
        "exp": Same("Exp"),
    }
    need(kind in known, f"an activation of type '{kind}' is not known; {', '.join(known)} are")
    known[kind](layer)


def relu6(layer: Legacy) -> None:
    """ReLU6."""
    layer.add("Clip", {"clip_param": {"min": 0.0, "max": layer.number("n", default=6.0)}})


def prelu(layer: Legacy) -> None:
    """PReLU."""
    channels = layer.shape()[1]
    layer.value("filler_type", "filler_value", "min", "max", "mean", "std", "sparse", "variance_norm")
    blob = layer.blobs.get("weights")
    shared = layer.flag("channel_shared") or (blob is not None and blob.size == 1 < channels)
    slopes = layer.weights((1,) if shared else (channels,))
    layer.add("PReLU", {"prelu_param": {"channel_shared": int(shared)}}, blobs=[slopes])


def reshape(layer: Legacy) -> None:
    """Reshape, Flatten, Squeeze, Unsqueeze: the output's shape says it all; the first size follows the input."""
    layer.value("dim", "axis", "num_axes", "end_axis", "special_zero")
    before, after = layer.shape(), layer.out_shape()
    need(np.prod(before) == np.prod(after), f"the values of {before} do not fill {after}")
    need(len(after) > 0, "an output without axes is not supported")
    dims = [0 if i == 0 and before and before[0] == d else d for i, d in enumerate(after)]
    layer.add("Reshape", {"reshape_param": {"shape": {"dim": dims}}}, inputs=layer.inputs[:1])


def softmax(layer: Legacy) -> None:
    """SoftMax."""
    layer.add("Softmax", {"softmax_param": {"axis": layer.whole("axis", default=1)}})


def permute(layer: Legacy) -> None:
    """Permute."""
    layer.add("Permute", {"permute_param": {"order": layer.numbers("order")}}, inputs=layer.inputs[:1])


def tile(layer: Legacy) -> None:
    """Tile."""
    params = {"axis": layer.whole("axis", default=1), "tiles": layer.whole("tiles")}
    layer.add("Tile", {"tile_param": params}, inputs=layer.inputs[:1])


def crop(layer: Legacy) -> None:
    """Crop: as much as the output's shape says, from the offsets on."""
    axes = layer.numbers("axis")
    offsets = layer.numbers("offset", "crop_begin")
    layer.value("dim", "crop_end")
    shape, wanted = layer.shape(), layer.out_shape()
    need(len(axes) == len(offsets), f"'axis' and 'offset' must be equally long, got {axes} and {offsets}")
    need(len(shape) == len(wanted), f"an output of shape {wanted} is no part of {shape}")
    begins = [0] * len(shape)
    for axis, offset in zip(axes, offsets):
        need(-len(shape) <= axis < len(shape), f"axis {axis} is not one of the {len(shape)} axes")
        begins[axis] = offset
    cut(layer, layer.inputs[0], shape, begins, wanted)


def interp(layer: Legacy) -> None:
    """Interp: bilinear with aligned corners, to the size that the output has."""
    layer.value("factor", "shrink_factor", "zoom_factor", "height", "width")
    shape, wanted = layer.shape(), layer.out_shape()
    aligned = layer.flag("align_corners", default=True)
    need(
        aligned or shape == wanted,
        "align_corners=0 is not supported: no layer of Caffe's samples so. Define Interp in a layers file",
    )
    params: dict[str, Any] = {"height": wanted[2], "width": wanted[3]}
    for name in ("pad_beg", "pad_end"):
        params[name] = layer.whole(name, default=0)
    layer.add("Interp", {"interp_param": params}, inputs=layer.inputs[:1])


def resample(layer: Legacy) -> None:
    """Resample, to the size that the output has."""
    layer.value("factor", "width", "height", "fx", "fy")
    wanted = layer.out_shape()
    kind = layer.word("type", default="LINEAR").upper()
    params = {
        "type": kind,
        "height": wanted[2],
        "width": wanted[3],
        "antialias": int(layer.flag("antialias", default=True)),
    }
    layer.add("Resample", {"resample_param": params}, inputs=layer.inputs[:1])


def normalize(layer: Legacy) -> None:
    """Normalize."""
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


def shuffle(layer: Legacy) -> None:
    """ShuffleChannels."""
    need(layer.whole("axis", default=1) == 1, "only axis 1 is supported")
    layer.add("ShuffleChannel", {"shuffle_channel_param": {"group": layer.whole("group", default=1)}})


def log_softmax(layer: Legacy) -> None:
    """LogSoftmax."""
    middle = layer.between("softmax")
    params = {"softmax_param": {"axis": layer.whole("axis", default=1)}}
    layer.add("Softmax", params, outputs=[middle], name="softmax")
    layer.add("Log", inputs=[middle], name="log")


def const(layer: Legacy) -> None:
    """Const: a layer without inputs that gives its one blob."""
    need(len(layer.outputs) == 1, f"gives one output, got {len(layer.outputs)}")
    blob = next(iter(layer.blobs.values()), None)
    need(blob is not None, "its values are not in the file")
    if blob is not None:
        values = layer.weights(layer.out_shape(), next(iter(layer.blobs)))
        layer.add("Parameter", parameter(layer.out_shape()), blobs=[values])


_PRIOR = ("min_size", "max_size", "aspect_ratio", "flip", "clip", "variance", "step", "offset")
_QUIET_PRIOR = ("img_size", "img_h", "img_w", "step_h", "step_w", "scale_all_sizes", "fixed_size", "fixed_ratio")


def prior_box(layer: Legacy) -> None:
    """PriorBox."""
    for name in ("fixed_size", "fixed_ratio", "density"):
        need(layer.value(name, default="") in ("", []), f"{name} is not supported")
    need(layer.flag("scale_all_sizes", default=True), "scale_all_sizes=0 is not supported")
    Same("PriorBox", "prior_box_param", _PRIOR, dropped=_QUIET_PRIOR)(layer)


def clustered(layer: Legacy) -> None:
    """PriorBoxClustered."""
    fields = ("width", "height", "clip", "variance", "step", "step_h", "step_w", "offset")
    quiet = ("img_size", "img_h", "img_w", "flip", "min_size", "max_size", "aspect_ratio")
    for name in ("step", "step_h", "step_w"):  # 0 says that there is none
        if layer.value(name) == 0:
            del layer.attributes[name]
    Same("PriorBoxClustered", "prior_box_param", fields, dropped=quiet)(layer)


def detection_output(layer: Legacy) -> None:
    """DetectionOutput."""
    need(layer.number("eta", default=1.0) == 1, "an eta other than 1 is not supported")
    suppression: dict[str, Any] = {"nms_threshold": layer.number("nms_threshold", default=0.3)}
    if layer.value("top_k") is not None:
        suppression["top_k"] = layer.whole("top_k")
    fields = (
        "num_classes", "share_location", "background_label_id", "code_type", "keep_top_k",
        "variance_encoded_in_target", "confidence_threshold", "normalized", "input_width", "input_height",
    )  # fmt: skip
    quiet = (
        "visualize", "visualize_threshold", "num_orient_classes", "interpolate_orientation", "save_file",
        "label_map_file", "name_size_file", "output_directory", "output_format", "output_name_prefix",
        "num_test_image", "height", "width", "height_scale", "width_scale", "pad_mode", "pad_value", "prob",
        "resize_mode", "interp_mode",
    )  # fmt: skip
    for name in ("decrease_label_id", "clip_before_nms", "clip_after_nms", "clip"):
        need(not layer.flag(name), f"{name}=1 is not supported")
    Same("DetectionOutput", "detection_output_param", fields, words=("code_type",), dropped=quiet)(layer)
    params = layer.nodes[-1].params["detection_output_param"]
    params["nms_param"] = suppression
    if params.get("background_label_id") == -1:  # to Intel's layer there is none; Caffe's aborts
        params["background_label_id"] = params["num_classes"]


def region(layer: Legacy) -> None:
    """RegionYolo."""
    flat = {name: layer.whole(name) for name in ("axis", "end_axis") if name in layer.attributes}
    fields = ("coords", "classes", "num", "do_softmax", "mask", "anchors")
    quiet = (
        "bias_match", "jitter", "rescore", "object_scale", "noobject_scale", "class_scale", "coord_scale",
        "absolute", "thresh", "random", "truth_thresh", "ignore_thresh", "softmax",
    )  # fmt: skip
    Same("RegionYolo", "region_yolo_param", fields, dropped=quiet)(layer)
    if flat:
        layer.nodes[-1].params["flatten_param"] = flat


TYPES: dict[str, Callable[[Legacy], None]] = {
    "Convolution": convolution,
    "Deconvolution": deconvolution,
    "Pooling": pooling,
    "FullyConnected": fully_connected,
    "InnerProduct": fully_connected,
    "ScaleShift": scale_shift,
    "BatchNormalization": batch_norm,
    "Norm": norm,
    "LRN": norm,
    "Eltwise": eltwise,
    "Concat": concat,
    "Split": split,
    "Slice": split,
    "Power": power,
    "Clamp": clamp,
    "Activation": activation,
    "ReLU6": relu6,
    "PReLU": prelu,
    "ReLU": Same("ReLU", "relu_param", ("negative_slope",)),
    "ELU": Same("ELU", "elu_param", ("alpha",)),
    "Sigmoid": Same("Sigmoid"),
    "TanH": Same("TanH"),
    "Tanh": Same("TanH"),
    "Exp": Same("Exp"),
    "Log": Same("Log"),
    "Abs": Same("AbsVal"),
    "Reshape": reshape,
    "Flatten": reshape,
    "Squeeze": reshape,
    "Unsqueeze": reshape,
    "SoftMax": softmax,
    "Softmax": softmax,
    "LogSoftmax": log_softmax,
    "Permute": permute,
    "Tile": tile,
    "Crop": crop,
    "Interp": interp,
    "Resample": resample,
    "Normalize": normalize,
    "MVN": Same("MVN", "mvn_param", ("normalize_variance", "across_channels", "eps")),
    "GRN": Same("GRN", "grn_param", ("bias",)),
    "ArgMax": Same("ArgMax", "argmax_param", ("axis", "out_max_val", "top_k")),
    "ShuffleChannels": shuffle,
    "Dropout": Same("Split", dropped=("dropout_ratio", "scale_train", "ratio")),
    "Copy": Same("Split"),
    "Const": const,
    "PriorBox": prior_box,
    "PriorBoxClustered": clustered,
    "DetectionOutput": detection_output,
    "RegionYolo": region,
    "ReorgYolo": Same("ReorgYolo", "reorg_yolo_param", ("stride",)),
    "PSROIPooling": Same(
        "PSROIPooling",
        "psroi_pooling_param",
        ("spatial_scale", "output_dim", "group_size"),
        dropped=("no_trans", "part_size", "sample_per_part", "pooled_width", "pooled_height"),
    ),
    "ROIPooling": Same(
        "ROIPooling", "roi_pooling_param", ("pooled_h", "pooled_w", "spatial_scale"), dropped=("method",)
    ),
    "Proposal": Same(
        "Proposal",
        "proposal_param",
        (
            "feat_stride", "base_size", "min_size", "ratio", "scale", "pre_nms_topn", "post_nms_topn",
            "nms_thresh",
        ),
        dropped=("framework",),
    ),
    "CTCGreedyDecoder": Same("CTCGreedyDecoder", "ctc_decoder_param", ("ctc_merge_repeated",)),
}  # fmt: skip
"""IR type -> what spells it as Caffe's."""


def translate(layer: Legacy) -> None:
    """Spell a layer of a known type as Caffe's, into `layer.nodes`. Raises LayerError for what it cannot say."""
    TYPES[layer.type](layer)
    layer.check_taken()


def unknown_attributes(layer: Legacy) -> dict[str, Any]:
    """The typed attributes of a layer that only a user's class can define."""
    return {name: layer.value(name) for name in layer.attributes}


def refuse_namesake(layer: Legacy) -> LayerError:
    """A layer of an IR that Caffe has by that name, but perhaps in another sense."""
    return LayerError(
        f"a layer of type {layer.type} of an old IR is not supported. A class for it in a layers file defines it"
    )
