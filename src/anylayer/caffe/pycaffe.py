"""caffe.pycaffe: the module of pycaffe that has Net, for scripts that name it."""

from __future__ import annotations

from anylayer.caffe import modes
from anylayer.caffe.modes import *  # noqa: F403 (modes lists its names)
from anylayer.caffe.net import Net

__all__ = ["Net"]
__all__ += modes.__all__
