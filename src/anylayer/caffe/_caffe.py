"""caffe._caffe: what pycaffe has from its C++ module, for scripts that name it."""

from __future__ import annotations

from anylayer.caffe.blob import Blob
from anylayer.caffe.modes import (
    Timer,
    get_solver,
    has_nccl,
    init_log,
    layer_type_list,
    log,
    set_device,
    set_mode_cpu,
    set_mode_gpu,
    set_multiprocess,
    set_solver_count,
    set_solver_rank,
    solver_count,
    solver_rank,
)
from anylayer.caffe.net import LayerVec, Net
from anylayer.caffe.python_layer import BlobVec, Layer

__all__ = [
    "Blob",
    "BlobVec",
    "Layer",
    "LayerVec",
    "Net",
    "Timer",
    "get_solver",
    "has_nccl",
    "init_log",
    "layer_type_list",
    "log",
    "set_device",
    "set_mode_cpu",
    "set_mode_gpu",
    "set_multiprocess",
    "set_solver_count",
    "set_solver_rank",
    "solver_count",
    "solver_rank",
]
