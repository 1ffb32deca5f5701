"""Forks of Caffe: which layer types and fields each of them reads, beside what the layers' classes declare."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from anylayer.errors import InputError, nearest, need
from anylayer.layer import Registry
from anylayer.writers.caffe.base import NUMBERS

_NO_MESSAGE = ("AbsVal", "BNLL", "BatchReindex", "Filter", "Silence", "Split")
_FORKS_OWN = ("DepthwiseConvolution", "ConvolutionDepthwise", "ReLU6", "AnnotatedData", "BoxData", "MultiBoxLoss")
"""Types outside BVLC's Caffe that read one of its messages."""

_NEW = ("Clip", "Swish")
_2016 = (*_NEW, "Crop", "Input", "Parameter", "LSTM", "RNN", "Bias", "Scale", "ELU", "BatchNorm", "Tile", "Log")
_2015 = (*_2016, "Reshape", "Flatten", "Reduction", "Embed", "SPP", "PReLU", "Filter", "BatchReindex")
_SSD = ("Permute", "PriorBox", "DetectionOutput", "Normalize")


@dataclass(frozen=True)
class Dialect:
    """What a fork reads. `name` "" is every type and field that is known.

    `floor` is the field of pooling_param that rounds the number of windows down, with its value. `legacy_inputs`:
    inputs are `input` and `input_shape` of the network, since there is no Input layer. `only` are its types where
    it has few of BVLC's. `fields` are numbers that differ: {"pooling_param": {"ceil_mode": 13}}. `without` are
    fields it does not have.
    """

    name: str
    floor: tuple[str, Any] | None = None
    lacks: frozenset[str] = frozenset()
    adds: frozenset[str] = frozenset()
    only: frozenset[str] = frozenset()
    legacy_inputs: bool = False
    fields: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    without: frozenset[str] = frozenset()

    def has(self, type_: str) -> bool:
        """Whether layers of a type may be written."""
        if not self.name:
            return True
        if self.only:
            return type_ in self.only
        if type_ in self.adds:
            return True
        if type_ in self.lacks:
            return False
        found = [d for d in Registry.of("caffe").find(type_) if d.typed]
        classes: list[Any] = [d.cls for d in found]
        if any(self.name in d.dialects for d in found) or any(self.name in c.numbers for c in classes):
            return True
        return type_ in _NO_MESSAGE or any(c.message in NUMBERS and type_ not in _FORKS_OWN for c in classes)

    def has_field(self, message: str, name: str) -> bool:
        """Whether a field of a parameter message may be written."""
        return f"{message}.{name}" not in self.without


def _set(*names: str) -> frozenset[str]:
    return frozenset(names)


_OPENCV = _set(
    *("AbsVal", "BNLL", "BatchNorm", "Concat", "Convolution", "Crop"),
    *("Deconvolution", "DetectionOutput", "Dropout", "ELU", "Eltwise", "Exp", "Flatten", "InnerProduct"),
    *("Input", "Interp", "LRN", "MVN", "Normalize", "PReLU", "PSROIPooling", "Permute", "Pooling", "Power"),
    *("PriorBox", "Proposal", "ROIPooling", "ReLU", "ReLU6", "Reorg", "Resample", "Reshape", "Scale"),
    *("ShuffleChannel", "Sigmoid", "Silence", "Slice", "Softmax", "Split", "TanH"),
)
_ROUND = ("round_mode", "FLOOR")
_CEIL = ("ceil_mode", False)
_NO_ROUND = _set("pooling_param.round_mode", "pooling_param.ceil_mode")
_NO_CEIL = _set("pooling_param.ceil_mode")

DIALECTS = {
    d.name: d
    for d in (
        Dialect("", floor=_ROUND),
        Dialect("bvlc", floor=_ROUND, without=_NO_CEIL),
        Dialect("ssd", lacks=_set(*_NEW), adds=_set(*_SSD), without=_NO_ROUND),
        Dialect("refinedet", lacks=_set(*_NEW), adds=_set(*_SSD), without=_NO_ROUND),
        Dialect("mobilenet-yolo", floor=_ROUND, without=_NO_CEIL, lacks=_set(*_NEW),
                adds=_set(*_SSD, "ReLU6", "DepthwiseConvolution")),
        Dialect("caffe-plus", floor=_ROUND, lacks=_set(*_NEW), adds=_set(*_SSD), without=_NO_CEIL),
        Dialect("senet", floor=_ROUND, lacks=_set(*_NEW), adds=_set("Axpy"), without=_NO_CEIL),
        Dialect("deeplab", lacks=_set(*_2016), legacy_inputs=True, without=_NO_ROUND),
        Dialect("pspnet", lacks=_set(*_NEW, "Input", "Crop", "Parameter", "LSTM", "RNN"), legacy_inputs=True,
                without=_NO_ROUND),
        Dialect("hed", lacks=_set(*_2015) - {"Crop"}, legacy_inputs=True, without=_NO_ROUND),
        Dialect("segnet", lacks=_set(*_2016), legacy_inputs=True, without=_NO_ROUND),
        Dialect("ascend", floor=_CEIL, fields={"pooling_param": {"ceil_mode": 13, "round_mode": 14}},
                adds=_set("ReLU6", "Permute", "Normalize", "Interp", "Reverse", "ROIPooling", "Mish", "HardSwish"),
                lacks=_set("Parameter", "Embed", "Filter", "BatchReindex")),
        Dialect("opencv", floor=_CEIL, only=_OPENCV, fields={"pooling_param": {"ceil_mode": 13}},
                without=_set("pooling_param.round_mode")),
    )
}  # fmt: skip
"""The forks whose lacks are known; of others it is known which layers they add."""


def dialect_of(name: str | None) -> Dialect:
    """The dialect of a name; "" where none is given. Raises InputError for a name that nothing declares."""
    known = DIALECTS.get(name or "")
    if known is not None:
        return known
    names = Registry.of("caffe").dialects() | set(DIALECTS) - {""}
    need(
        name in names,
        f"there is no dialect '{name}'{nearest(str(name), names)}; dialects: {', '.join(sorted(names))}",
        InputError,
    )
    return Dialect(str(name), lacks=_set(*_NEW), without=_NO_ROUND)
