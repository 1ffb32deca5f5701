"""pycaffe's ways to define networks and to set weights, without Caffe: NetSpec, Net, transfer_weights.

    from anylayer.caffe import NetSpec, layers as L, params as P

    n = NetSpec()
    n.data = L.Input(shape=[dict(dim=[1, 3, 32, 32])])
    n.conv1 = L.Convolution(n.data, num_output=8, kernel_size=3, pad=1)
    n.pool1 = L.Pooling(n.conv1, kernel_size=2, stride=2, pool=P.Pooling.MAX)
    print(n.to_proto())

A script written for pycaffe works with its import changed: `import anylayer.caffe as caffe`.
"""

from __future__ import annotations

from anylayer.caffe.net import TEST, TRAIN, Blob, Net
from anylayer.caffe.net_parameter import LayerParameter, NetParameter
from anylayer.caffe.net_spec import Layers, NetSpec, Parameters, Top, to_proto
from anylayer.caffe.transfer import Transfer, transfer_weights

layers = Layers()
"""`layers.Convolution(bottom, num_output=8, kernel_size=3)` returns a top, or a tuple of `ntop` tops."""

params = Parameters()
"""`params.Pooling.MAX` is the number of a value of an enum."""

__all__ = [
    "TEST",
    "TRAIN",
    "Blob",
    "LayerParameter",
    "Net",
    "NetParameter",
    "NetSpec",
    "Top",
    "Transfer",
    "layers",
    "params",
    "to_proto",
    "transfer_weights",
]
