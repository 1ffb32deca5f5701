"""The forks of Caffe: the layer types and fields that each reads, in addition to those of the layer classes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from anylayer.errors import need_one_of
from anylayer.layer import Definition, Registry
from anylayer.writers.caffe.messages import MESSAGE_NUMBERS


def _names(text: str) -> frozenset[str]:
    return frozenset(text.split())


_NO_MESSAGE = _names("AbsVal BNLL BatchReindex Filter Silence Split")
_FORKS_OWN = _names("DepthwiseConvolution ConvolutionDepthwise ReLU6 AnnotatedData BoxData MultiBoxLoss")
"""Types that BVLC's Caffe lacks although they read one of its messages."""

_NEW = _names("Clip Swish")
_2016 = _NEW | _names("Crop Input Parameter LSTM RNN Bias Scale ELU BatchNorm Tile Log")
_2015 = _2016 | _names("Reshape Flatten Reduction Embed SPP PReLU Filter BatchReindex")
"""BVLC's types that a fork of before that year lacks."""

_SSD = _names("Permute PriorBox DetectionOutput Normalize")


@dataclass(frozen=True)
class Dialect:
    """A fork of Caffe and what it reads. The dialect "" has every known type and field.

    name: its name, as in `--dialect`. floor: the field of pooling_param, with its value, that rounds the number of
    windows down; None if there is none. lacks, adds: the types it lacks of those that layer classes declare, and
    the types it has in addition. only: all of its types, for a fork with few of BVLC's. `lacks` and `adds` are
    ignored then. legacy_inputs: inputs are the network's fields `input` and `input_shape`, since there is no Input
    layer. fields: field numbers that differ from BVLC's: {"pooling_param": {"ceil_mode": 13}}. without: fields
    that it lacks: "pooling_param.round_mode". in_pairs: the operations for which its Eltwise reads two inputs
    only; such a fork reads no factors. whole_kernel: whether the mean of a pooling window is divided by the size
    of the kernel also where the window reaches beyond the padding.
    """

    name: str
    floor: tuple[str, Any] | None = None
    lacks: frozenset[str] = frozenset()
    adds: frozenset[str] = frozenset()
    only: frozenset[str] = frozenset()
    legacy_inputs: bool = False
    fields: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    without: frozenset[str] = frozenset()
    in_pairs: frozenset[str] = frozenset()
    whole_kernel: bool = False

    def has(self, type_: str) -> bool:
        """Return whether the dialect has layers of a type."""
        if not self.name:
            return True
        if self.only:
            return type_ in self.only
        if type_ in self.adds:
            return True
        if type_ in self.lacks:
            return False
        definitions = [d for d in Registry.of("caffe").find(type_) if d.typed]
        classes: list[Any] = [d.cls for d in definitions]
        if any(self.name in d.dialects for d in definitions) or any(self.name in c.numbers for c in classes):
            return True
        return type_ in _NO_MESSAGE or any(
            c.message in MESSAGE_NUMBERS and type_ not in _FORKS_OWN for c in classes
        )

    def own(self, type_: str) -> list[Definition]:
        """Return the definition of a type that is the fork's own, in a list; [] where it is BVLC's or absent."""
        definitions = [d for d in Registry.of("caffe").find(type_) if d.typed]
        named = [d for d in definitions if self.name in d.dialects]
        numbered = [d for d in definitions if self.name in d.layer_class.numbers or type_ in self.adds]
        return (named or numbered)[:1]

    def has_field(self, message: str, name: str) -> bool:
        """Return whether the dialect has a field of a parameter message."""
        return f"{message}.{name}" not in self.without


_OPENCV = _names(
    """
    AbsVal BNLL BatchNorm Concat Convolution Crop Deconvolution DetectionOutput Dropout ELU Eltwise Exp
    Flatten InnerProduct Input Interp LRN MVN Normalize PReLU PSROIPooling Permute Pooling Power PriorBox
    Proposal ROIPooling ReLU ReLU6 Reorg Resample Reshape Scale ShuffleChannel Sigmoid Silence Slice Softmax
    Split TanH
    """
)
_SOPHGO = _names(
    """
    AbsVal Accuracy ArgMax Axpy BN BNLL BatchNorm BatchReindex Bias Clip Concat ContinuationIndicator
    ContrastiveLoss Convolution ConvolutionDepthwise Crop Deconvolution DetectionEvaluate DetectionOutput
    Dropout ELU Eltwise Embed EuclideanLoss Exp Filter Flatten HingeLoss Im2col InfogainLoss InnerProduct
    Input Interp LRN LSTM LSTMUnit Log Lstm MVN MatMul Mish MultinomialLogisticLoss Normalize PReLU Padding
    Parameter Permute Pooling Power PriorBox Proposal Python RNN ROIPooling ReLU ReLU6 Reduction RegionLoss
    Reorg Reshape Reverse SPP Scale ShuffleChannel Sigmoid SigmoidCrossEntropyLoss Silence Slice Softmax
    SoftmaxWithLoss Split Swish TanH Threshold Tile Upsample YoloDetection
    """
)
"""The types of the Caffe in tpu-mlir 1.30.2, without those that are refused, and without DummyData, whose values
it never sets.
"""
_RKNN = _names(
    """
    BatchNorm Concat Convolution Crop Deconvolution Dropout Eltwise Flatten HardSigmoid InnerProduct Input
    LRN Normalize PReLU Permute Pooling Power ReLU ReLU6 Reorg Reshape Reverse Scale Sigmoid Slice Softmax
    Split TanH Tile Upsample
    """
)
"""The types that rknn-toolkit2 2.5.0 computes as Caffe does; rknn_rules.py refuses some of their fields."""
_ROUND = ("round_mode", "FLOOR")
_CEIL = ("ceil_mode", False)
_NO_CEIL = _names("pooling_param.ceil_mode batch_norm_param.update_global_stats dropout_param.scale_train")
"""Fields that forks have added to messages of BVLC's Caffe."""
_NO_ROUND = _NO_CEIL | {"pooling_param.round_mode"}
_NO_ROUND_WITH_STATS = _NO_ROUND - {"batch_norm_param.update_global_stats"}

DIALECTS = {
    d.name: d
    for d in (
        Dialect("", floor=_ROUND),
        Dialect("bvlc", floor=_ROUND, without=_NO_CEIL),
        Dialect("ssd", lacks=_NEW, adds=_SSD, without=_NO_ROUND),
        Dialect("refinedet", lacks=_NEW, adds=_SSD, without=_NO_ROUND),
        Dialect("mobilenet-yolo", floor=_ROUND, without=_NO_CEIL, lacks=_NEW,
                adds=_SSD | _names("ReLU6 DepthwiseConvolution")),
        Dialect("caffe-plus", floor=_ROUND, lacks=_NEW, adds=_SSD, without=_NO_CEIL),
        Dialect("senet", floor=_ROUND, lacks=_NEW, adds=_names("Axpy"), without=_NO_CEIL),
        Dialect("deeplab", lacks=_2016, legacy_inputs=True, without=_NO_ROUND_WITH_STATS),
        Dialect("pspnet", lacks=_NEW | _names("Input Crop Parameter LSTM RNN"), legacy_inputs=True,
                without=_NO_ROUND_WITH_STATS),
        Dialect("hed", lacks=_2015 - {"Crop"}, legacy_inputs=True, without=_NO_ROUND),
        Dialect("segnet", lacks=_2016, legacy_inputs=True, without=_NO_ROUND),
        Dialect("ascend", floor=_CEIL, fields={"pooling_param": {"ceil_mode": 13, "round_mode": 14}},
                adds=_names("ReLU6 Permute Normalize Interp Reverse ROIPooling Mish HardSwish"),
                lacks=_names("Parameter Embed Filter BatchReindex")),
        Dialect("intel", lacks=_NEW, without=_NO_ROUND, fields={"batch_norm_param": {"engine": 4}}),
        Dialect("sophgo", floor=_ROUND, only=_SOPHGO, fields={"batch_norm_param": {"engine": 4}},
                without=_names("batch_norm_param.update_global_stats"), whole_kernel=True),
        Dialect("rknn", floor=_ROUND, only=_RKNN, without=_NO_CEIL | {"eltwise_param.coeff"},
                in_pairs=_names("SUM PROD")),
        Dialect("caffe2onnx", lacks=_NEW, without=_NO_ROUND | {"eltwise_param.coeff"},
                in_pairs=_names("SUM PROD")),
        Dialect("opencv", floor=_CEIL, only=_OPENCV, fields={"pooling_param": {"ceil_mode": 13}},
                without=_names("pooling_param.round_mode batch_norm_param.update_global_stats")),
    )
}  # fmt: skip
"""The forks of which it is known what they lack. For other dialects it is only known which layers they add."""


def dialect_names() -> list[str]:
    """Return the names of all dialects that can be written, sorted."""
    return sorted(Registry.of("caffe").dialects() | set(DIALECTS) - {""})


def dialect_of(name: str | None) -> Dialect:
    """Return the dialect of this name, or the dialect "" for None. Raises InputError for an unknown name."""
    dialect = DIALECTS.get(name or "")
    if dialect is not None:
        return dialect
    names = dialect_names()
    need_one_of(str(name), names, f"there is no dialect '{name}'", "dialects")
    return Dialect(str(name), lacks=_NEW, without=_NO_ROUND)
