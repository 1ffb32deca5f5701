"""Operators that NumPy lacks. Each file defines one, by its NumPy meaning and its ONNX form. It is loaded when the
operator is first used.

docs/operators.md lists them with their signatures. The imports tell type checkers and editors of them.
"""

import sys
from typing import TYPE_CHECKING

from anylayer.folders import NamesByFile, modules

if TYPE_CHECKING:
    from anylayer.ops.average_pool import average_pool as average_pool
    from anylayer.ops.batch_normalization import batch_normalization as batch_normalization
    from anylayer.ops.clip import clip as clip
    from anylayer.ops.conv import conv as conv
    from anylayer.ops.conv_transpose import conv_transpose as conv_transpose
    from anylayer.ops.depth_to_space import depth_to_space as depth_to_space
    from anylayer.ops.dequantize_linear import dequantize_linear as dequantize_linear
    from anylayer.ops.elu import elu as elu
    from anylayer.ops.erf import erf as erf
    from anylayer.ops.gather import gather as gather
    from anylayer.ops.gather_elements import gather_elements as gather_elements
    from anylayer.ops.gather_nd import gather_nd as gather_nd
    from anylayer.ops.gelu import gelu as gelu
    from anylayer.ops.gemm import gemm as gemm
    from anylayer.ops.grid_sample import grid_sample as grid_sample
    from anylayer.ops.gru import gru as gru
    from anylayer.ops.hard_sigmoid import hard_sigmoid as hard_sigmoid
    from anylayer.ops.head import head as head
    from anylayer.ops.leaky_relu import leaky_relu as leaky_relu
    from anylayer.ops.log_softmax import log_softmax as log_softmax
    from anylayer.ops.lrn import lrn as lrn
    from anylayer.ops.lstm import lstm as lstm
    from anylayer.ops.max_pool import max_pool as max_pool
    from anylayer.ops.max_pool_with_indices import max_pool_with_indices as max_pool_with_indices
    from anylayer.ops.max_roi_pool import max_roi_pool as max_roi_pool
    from anylayer.ops.max_unpool import max_unpool as max_unpool
    from anylayer.ops.nms import nms as nms
    from anylayer.ops.one_hot import one_hot as one_hot
    from anylayer.ops.pad_to_maximum import pad_to_maximum as pad_to_maximum
    from anylayer.ops.prelu import prelu as prelu
    from anylayer.ops.quantize_linear import quantize_linear as quantize_linear
    from anylayer.ops.relu import relu as relu
    from anylayer.ops.resize import resize as resize
    from anylayer.ops.reverse_sequence import reverse_sequence as reverse_sequence
    from anylayer.ops.rnn import rnn as rnn
    from anylayer.ops.roi_align import roi_align as roi_align
    from anylayer.ops.scatter_elements import scatter_elements as scatter_elements
    from anylayer.ops.scatter_nd import scatter_nd as scatter_nd
    from anylayer.ops.sigmoid import sigmoid as sigmoid
    from anylayer.ops.softmax import softmax as softmax
    from anylayer.ops.softplus import softplus as softplus
    from anylayer.ops.space_to_depth import space_to_depth as space_to_depth
    from anylayer.ops.top_k import top_k as top_k

__all__ = modules("ops")

sys.modules[__name__].__class__ = NamesByFile
