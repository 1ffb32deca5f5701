"""SpatialDropout (ENet)."""

from __future__ import annotations

from anylayer.layer import Layer, field, layer, need
from anylayer.layers.caffe._messages import is_training
from anylayer.network import Array


@layer("SpatialDropout")
class SpatialDropout(Layer):
    """Return the input; training sets random channels to 0 (ENet, arXiv 1606.02147).

    Source: jtetrea/caffe-enet src/caffe/layers/spatial_dropout_layer.cpp.
    """

    elementwise = True
    message = "spatial_dropout_param"
    numbers = {"sophgo": 155, "": 155}
    dropout_ratio: float = field(1, "float", 0.5, doc="share of the channels that training sets to 0")
    sample_weights_test: bool = field(2, "bool", False, doc="set channels to 0 at test time too; must be false")

    def setup(self) -> None:
        need(
            not self.sample_weights_test,
            "sample_weights_test: true draws random masks at test time, so the output is not defined. "
            "Remove the field for the mean prediction",
        )

    def forward(self, x: Array) -> Array:
        if is_training(self):
            self.note("SpatialDropout at TRAIN is random; it is taken as the identity here")
        return x
