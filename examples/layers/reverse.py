"""Reverse of Ascend's Caffe: the values along some axes in the opposite order.

C++ copies element by element to a mirrored index. In NumPy it is a slice with the step -1, and no copy at all.
"""

import numpy as np

import anylayer


@anylayer.layer("Reverse")
class ReverseLayer:
    """Any shape to the same shape, turned around along `axis`, one or more of them."""

    def __init__(self, params, blobs):
        self.axes = tuple(map(int, np.atleast_1d(params["axis"])))

    def getMemoryShapes(self, inputs):
        return [inputs[0]]

    def forward(self, inputs):
        return [np.flip(inputs[0], self.axes)]
