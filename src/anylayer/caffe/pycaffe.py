"""caffe.pycaffe: the module of pycaffe that has Net, for scripts that name it."""

from __future__ import annotations

from anylayer.caffe.modes import (
    AdaDeltaSolver,
    AdaGradSolver,
    AdamSolver,
    NesterovSolver,
    RMSPropSolver,
    SGDSolver,
)
from anylayer.caffe.net import Net

__all__ = [
    "AdaDeltaSolver",
    "AdaGradSolver",
    "AdamSolver",
    "NesterovSolver",
    "Net",
    "RMSPropSolver",
    "SGDSolver",
]
