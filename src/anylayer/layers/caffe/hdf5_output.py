"""HDF5Output."""

from __future__ import annotations

from typing import Any

from anylayer.layer import Layer, field, layer
from anylayer.network import Array


@layer("HDF5Output")
class HDF5Output(Layer):
    """Consume the inputs; Caffe writes them to a file, here nothing is written.

    The inputs may have any shapes.
    Source: BVLC/caffe src/caffe/layers/hdf5_output_layer.cpp.
    """

    message = "hdf5_output_param"
    numbers = {"": 113}
    role = "sink"
    file_name: str = field(1, "string", "", doc="path of the file")

    def forward(self, *inputs: Array) -> Any:
        return []
