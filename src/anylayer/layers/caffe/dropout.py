"""Layers that are random in training: Dropout and SpatialDropout."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from anylayer.layer import Array, Layer, field, layer, need
from anylayer.layers.caffe._messages import is_training


@layer("Dropout")
class Dropout(Layer):
    """Return the input; training sets a share of the elements to 0.

    The output has the shape of the input.
    Source: BVLC/caffe src/caffe/layers/dropout_layer.cpp.
    """

    elementwise = True
    message = "dropout_param"
    numbers = {"": 108}
    dropout_ratio: float = field(1, "float", 0.5, doc="share of the elements that training sets to 0")
    scale_train: bool = field(
        2, "bool", True, doc="forks: training scales by 1 / (1 - ratio); false: running scales by 1 - ratio"
    )

    @classmethod
    def fits(cls, values: Mapping[str, Any], inputs: int, outputs: int) -> bool:
        return "sample_weights_test" not in values

    def forward(self, x: Array) -> Array:
        if is_training(self):
            self.note("Dropout at TRAIN is random; it is taken as the identity here")
        return x if self.scale_train else x * np.float32(1 - self.dropout_ratio)


class _SampledDropout(Layer):
    """A layer that is the identity unless it samples at test time, which is refused."""

    elementwise = True
    dropout_ratio: float = field(1, "float", 0.5, doc="share of the elements or channels that training sets to 0")
    sample_weights_test: bool = field(2, "bool", False, doc="the same at test time; must be false")

    def setup(self) -> None:
        need(
            not self.sample_weights_test,
            "sample_weights_test: true draws random masks at test time, so the output is not defined. "
            "Remove the field for the mean prediction",
        )

    def forward(self, x: Array) -> Array:
        if is_training(self):
            self.note(f"{self.type} at TRAIN is random; it is taken as the identity here")
        return x


@layer("Dropout", dialects=("segnet",))
class BayesianDropout(_SampledDropout):
    """Return the input; sampling at test time is refused (Bayesian SegNet).

    The output has the shape of the input.
    Source: alexgkendall/caffe-segnet src/caffe/layers/dropout_layer.cpp; arXiv 1511.02680.
    """

    message = "dropout_param"
    numbers = {"segnet": 108}
    distinctive = frozenset({"sample_weights_test"})


@layer("SpatialDropout")
class SpatialDropout(_SampledDropout):
    """Return the input; training sets random channels to 0 (ENet, arXiv 1606.02147).

    Source: jtetrea/caffe-enet src/caffe/layers/spatial_dropout_layer.cpp.
    """

    message = "spatial_dropout_param"
    numbers = {"sophgo": 155, "": 155}
