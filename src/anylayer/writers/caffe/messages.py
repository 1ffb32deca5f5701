"""Caffe's protobuf messages besides the parameters that layer classes declare.

Source of names, numbers, types and defaults: BVLC/caffe, src/caffe/proto/caffe.proto.
"""

from __future__ import annotations

from typing import Any

from anylayer.layer import Enum, Message, field

PHASE = Enum("TRAIN", "TEST")


class NetStateRule(Message):
    """A condition on the network's state under which a layer is part of the network."""

    phase: str = field(1, PHASE, None)
    min_level: int = field(2, "int32", None)
    max_level: int = field(3, "int32", None)
    stage: tuple[str, ...] = field(4, "string", repeated=True)
    not_stage: tuple[str, ...] = field(5, "string", repeated=True)


class ParamSpec(Message):
    """The training settings of one weight, and the name under which layers share it."""

    name: str = field(1, "string", None)
    share_mode: str = field(2, Enum("STRICT", "PERMISSIVE"), None)
    lr_mult: float = field(3, "float", 1.0)
    decay_mult: float = field(4, "float", 1.0)


class BlobShape(Message):
    """The dimensions of a blob, outermost first."""

    dim: tuple[int, ...] = field(1, "int64", repeated=True)


class BlobProto(Message):
    """The elements of a blob and its shape."""

    num: int = field(1, "int32", 0)
    channels: int = field(2, "int32", 0)
    height: int = field(3, "int32", 0)
    width: int = field(4, "int32", 0)
    data: tuple[float, ...] = field(5, "float", repeated=True)
    diff: tuple[float, ...] = field(6, "float", repeated=True)
    shape: BlobShape = field(7, BlobShape)
    double_data: tuple[float, ...] = field(8, "double", repeated=True)
    double_diff: tuple[float, ...] = field(9, "double", repeated=True)


class TransformationParameter(Message):
    """The preprocessing of an image before it is an input of the network."""

    scale: float = field(1, "float", 1.0)
    mirror: bool = field(2, "bool", False)
    crop_size: int = field(3, "uint32", 0)
    mean_file: str = field(4, "string", None)
    mean_value: tuple[float, ...] = field(5, "float", repeated=True)
    force_color: bool = field(6, "bool", False)
    force_gray: bool = field(7, "bool", False)


class LossParameter(Message):
    """The label that a loss ignores, and the divisor of the loss."""

    ignore_label: int = field(1, "int32", None)
    normalize: bool = field(2, "bool", None)
    normalization: str = field(3, Enum("FULL", "VALID", "BATCH_SIZE", "NONE"), "VALID")


class PythonParameter(Message):
    """The Python class that computes a layer."""

    module: str = field(1, "string", None)
    layer: str = field(2, "string", None)
    param_str: str = field(3, "string", "")
    share_in_parallel: bool = field(4, "bool", False)


class NetState(Message):
    """The state that a network's NetStateRules are compared with."""

    phase: str = field(1, PHASE, "TEST")
    level: int = field(2, "int32", 0)
    stage: tuple[str, ...] = field(3, "string", repeated=True)


LAYER_FIELDS: dict[str, Any] = {
    "name": field(1, "string", None),
    "type": field(2, "string", None),
    "bottom": field(3, "string", repeated=True),
    "top": field(4, "string", repeated=True),
    "loss_weight": field(5, "float", repeated=True),
    "param": field(6, ParamSpec, repeated=True),
    "blobs": field(7, BlobProto, repeated=True),
    "include": field(8, NetStateRule, repeated=True),
    "exclude": field(9, NetStateRule, repeated=True),
    "phase": field(10, PHASE, None),
    "propagate_down": field(11, "bool", repeated=True),
}
"""The fields of LayerParameter other than the parameter messages."""

NET_FIELDS: dict[str, Any] = {
    "name": field(1, "string", None),
    "input": field(3, "string", repeated=True),
    "force_backward": field(5, "bool", False),
    "state": field(6, NetState, None),
    "debug_info": field(7, "bool", False),
    "input_shape": field(8, BlobShape, repeated=True),
}
"""The fields of NetParameter other than the layers."""

MESSAGE_NUMBERS = {
    name + "_param": 100 + i
    for i, name in enumerate(
        (
            *("transform", "loss", "accuracy", "argmax", "concat", "contrastive_loss", "convolution", "data"),
            *("dropout", "dummy_data", "eltwise", "exp", "hdf5_data", "hdf5_output", "hinge_loss", "image_data"),
            *("infogain_loss", "inner_product", "lrn", "memory_data", "mvn", "pooling", "power", "relu"),
            *("sigmoid", "softmax", "slice", "tanh", "threshold", "window_data", "python", "prelu", "spp"),
            *("reshape", "log", "flatten", "reduction", "embed", "tile", "batch_norm", "elu", "bias", "scale"),
            *("input", "crop", "parameter", "recurrent", "swish", "clip"),
        )
    )
}
"""The field numbers of BVLC's parameter messages in LayerParameter."""

MESSAGE_CLASSES: dict[str, type[Message]] = {
    "transform_param": TransformationParameter,
    "loss_param": LossParameter,
    "python_param": PythonParameter,
}
"""The parameter messages that no layer class declares completely."""

_TITLES = {
    "transform_param": "TransformationParameter",
    "norm_param": "NormalizeParameter",
    "st_param": "SpatialTransformerParameter",
    "argmax_param": "ArgMaxParameter",
    **{f"{name}_param": f"{name.upper()}Parameter" for name in ("elu", "lrn", "mvn", "spp", "bn", "grn")},
    "relu_param": "ReLUParameter",
    "crelu_param": "CReLUParameter",
    "relu6_param": "ReLU6Parameter",
    "prelu_param": "PReLUParameter",
    "tanh_param": "TanHParameter",
    "hdf5_data_param": "HDF5DataParameter",
    "hdf5_output_param": "HDF5OutputParameter",
    "roi_align_param": "ROIAlignParameter",
    "roi_pooling_param": "ROIPoolingParameter",
    "psroi_pooling_param": "PSROIPoolingParameter",
    "smooth_l1_loss_param": "SmoothL1LossParameter",
}


def title(message: str) -> str:
    """Return the type of the message in a field: convolution_param -> ConvolutionParameter."""
    known = _TITLES.get(message)
    stem = message.removesuffix("_param")
    return known or "".join(part[:1].upper() + part[1:] for part in stem.split("_")) + "Parameter"


def type_of(stem: str) -> str:
    """Return the type of a parameter message by the type of its layer: Pooling -> PoolingParameter."""
    return f"{stem}Parameter"


__all__ = [
    "LAYER_FIELDS",
    "MESSAGE_CLASSES",
    "MESSAGE_NUMBERS",
    "NET_FIELDS",
    "BlobProto",
    "BlobShape",
    "title",
    "type_of",
]
