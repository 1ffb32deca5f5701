"""caffe._caffe: what pycaffe has from its C++ module, for scripts that name it."""

from __future__ import annotations

from anylayer.caffe import modes
from anylayer.caffe.blob import Blob
from anylayer.caffe.modes import *  # noqa: F403 (modes lists its names)
from anylayer.caffe.net import LayerVec, Net
from anylayer.caffe.python_layer import BlobVec, Layer

__all__ = ["Blob", "BlobVec", "Layer", "LayerVec", "Net"]
__all__ += modes.__all__
