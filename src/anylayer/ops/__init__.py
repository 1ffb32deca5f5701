"""Operators NumPy lacks: each has a NumPy meaning and an ONNX form, in one file. See docs/operators.md."""

from anylayer.ops.average_pool import average_pool
from anylayer.ops.conv import conv
from anylayer.ops.conv_transpose import conv_transpose
from anylayer.ops.gemm import gemm
from anylayer.ops.head import head
from anylayer.ops.lrn import lrn
from anylayer.ops.max_pool import max_pool
from anylayer.ops.max_pool_with_indices import max_pool_with_indices
from anylayer.ops.nms import nms
from anylayer.ops.resize import resize
from anylayer.ops.roi_align import roi_align
from anylayer.ops.softmax import softmax
from anylayer.ops.top_k import top_k

__all__ = [
    "average_pool",
    "conv",
    "conv_transpose",
    "gemm",
    "head",
    "lrn",
    "max_pool",
    "max_pool_with_indices",
    "nms",
    "resize",
    "roi_align",
    "softmax",
    "top_k",
]
