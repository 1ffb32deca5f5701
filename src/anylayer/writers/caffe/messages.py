"""Caffe's protobuf messages besides the parameters that layer classes declare.

Source of names, numbers, types and defaults: BVLC/caffe, src/caffe/proto/caffe.proto.
"""

from __future__ import annotations

from anylayer.layer import Enum, Field, Message, field
from anylayer.protobuf.proto_file import core
from anylayer.protobuf.schema import MessageClass


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


_NET, _LAYER = core().messages["NetParameter"].fields, core().messages["LayerParameter"].fields
_FIRST_PARAMETER = 100
"""The first field number of a parameter message in LayerParameter."""

LAYER_FIELDS: dict[str, Field] = {n: f for n, f in _LAYER.items() if f.number < _FIRST_PARAMETER}
"""The fields of LayerParameter other than the parameter messages."""

NET_FIELDS: dict[str, Field] = {n: f for n, f in _NET.items() if n not in ("layers", "input_dim", "layer")}
"""The fields of NetParameter other than the layers and the inputs of old files."""

MESSAGE_NUMBERS = {n: f.number for n, f in _LAYER.items() if f.number >= _FIRST_PARAMETER}
"""The field numbers of BVLC's parameter messages in LayerParameter."""

MESSAGE_CLASSES: dict[str, MessageClass] = {
    "transform_param": core().messages["TransformationParameter"],
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
    fixed_title = _TITLES.get(message)
    stem = message.removesuffix("_param")
    return fixed_title or "".join(part[:1].upper() + part[1:] for part in stem.split("_")) + "Parameter"


def type_of(stem: str) -> str:
    """Return the type of a parameter message by the type of its layer: Pooling -> PoolingParameter."""
    return f"{stem}Parameter"
