"""SpatialTransform (Ascend)."""

from __future__ import annotations

from anylayer.layer import Layer, layer
from anylayer.layers.caffe.spatial_transformer import AscendTransform
from anylayer.network import Array


@layer("SpatialTransform")
class SpatialTransform(AscendTransform, Layer):
    """Sample an image at points of an affine map, given by `affine_transform` or by input 1.

    (N, C, H, W) and theta (N, 6) to (N, C, output_h, output_w); see `transform` in spatial_transformer.py. Without
    `affine_transform` the second input is required.
    Source: Ascend/parser parser/proto/caffe/caffe.proto; daerduoCarey/SpatialTransformerLayer st_layer.cu
    (values).
    """

    message = "spatial_transform_param"
    numbers = {"": 153, "ascend": 153}

    def forward(self, x: Array, theta: Array | None = None) -> Array:
        return self.apply(x, theta)
