"""Operators that NumPy lacks. Each file defines one, by its NumPy meaning and its ONNX form. It is loaded when the
operator is first used.

docs/operators.md lists them with their signatures.
"""

import sys
from typing import TYPE_CHECKING

from anylayer.folders import NamesByFile

if TYPE_CHECKING:
    from anylayer.ops.average_pool import average_pool
    from anylayer.ops.batch_normalization import batch_normalization
    from anylayer.ops.clip import clip
    from anylayer.ops.conv import conv
    from anylayer.ops.conv_transpose import conv_transpose
    from anylayer.ops.depth_to_space import depth_to_space
    from anylayer.ops.dequantize_linear import dequantize_linear
    from anylayer.ops.elu import elu
    from anylayer.ops.erf import erf
    from anylayer.ops.gather import gather
    from anylayer.ops.gather_elements import gather_elements
    from anylayer.ops.gather_nd import gather_nd
    from anylayer.ops.gelu import gelu
    from anylayer.ops.gemm import gemm
    from anylayer.ops.grid_sample import grid_sample
    from anylayer.ops.gru import gru
    from anylayer.ops.hard_sigmoid import hard_sigmoid
    from anylayer.ops.head import head
    from anylayer.ops.leaky_relu import leaky_relu
    from anylayer.ops.log_softmax import log_softmax
    from anylayer.ops.lrn import lrn
    from anylayer.ops.lstm import lstm
    from anylayer.ops.max_pool import max_pool
    from anylayer.ops.max_pool_with_indices import max_pool_with_indices
    from anylayer.ops.max_roi_pool import max_roi_pool
    from anylayer.ops.max_unpool import max_unpool
    from anylayer.ops.nms import nms
    from anylayer.ops.one_hot import one_hot
    from anylayer.ops.pad_to_maximum import pad_to_maximum
    from anylayer.ops.prelu import prelu
    from anylayer.ops.quantize_linear import quantize_linear
    from anylayer.ops.relu import relu
    from anylayer.ops.resize import resize
    from anylayer.ops.reverse_sequence import reverse_sequence
    from anylayer.ops.rnn import rnn
    from anylayer.ops.roi_align import roi_align
    from anylayer.ops.scatter_elements import scatter_elements
    from anylayer.ops.scatter_nd import scatter_nd
    from anylayer.ops.sigmoid import sigmoid
    from anylayer.ops.softmax import softmax
    from anylayer.ops.softplus import softplus
    from anylayer.ops.space_to_depth import space_to_depth
    from anylayer.ops.top_k import top_k

__all__ = [
    "average_pool",
    "batch_normalization",
    "clip",
    "conv",
    "conv_transpose",
    "depth_to_space",
    "dequantize_linear",
    "elu",
    "erf",
    "gather",
    "gather_elements",
    "gather_nd",
    "gelu",
    "gemm",
    "grid_sample",
    "gru",
    "hard_sigmoid",
    "head",
    "leaky_relu",
    "log_softmax",
    "lrn",
    "lstm",
    "max_pool",
    "max_pool_with_indices",
    "max_roi_pool",
    "max_unpool",
    "nms",
    "one_hot",
    "pad_to_maximum",
    "prelu",
    "quantize_linear",
    "relu",
    "resize",
    "reverse_sequence",
    "rnn",
    "roi_align",
    "scatter_elements",
    "scatter_nd",
    "sigmoid",
    "softmax",
    "softplus",
    "space_to_depth",
    "top_k",
]

sys.modules[__name__].__class__ = NamesByFile
