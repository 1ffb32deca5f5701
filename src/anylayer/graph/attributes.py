"""The attributes of ONNX's operators with their defaults, in the operator set of the graph.

Attributes that later operator sets add to an operator have the default of the set that adds them.
"""

from __future__ import annotations

from ast import literal_eval
from collections.abc import Mapping
from typing import Any

_ATTRIBUTES = """
AffineGrid: align_corners=0
ArgMax ArgMin: axis=0 keepdims=1 select_last_index=0
AveragePool: auto_pad='NOTSET' ceil_mode=0 count_include_pad=0 dilations kernel_shape pads strides
BatchNormalization: epsilon=1e-05 momentum=0.9 training_mode=0
BitShift: direction
BlackmanWindow HammingWindow HannWindow: output_datatype=1 periodic=1
Cast: round_mode='up' saturate=1 to
Celu Elu Swish ThresholdedRelu: alpha=1.0
CenterCropPad: axes
Col2Im: dilations pads strides
Compress Concat: axis
ConstantOfShape: value
Conv ConvInteger QLinearConv: auto_pad='NOTSET' dilations group=1 kernel_shape pads strides
ConvTranspose: auto_pad='NOTSET' dilations group=1 kernel_shape output_padding output_shape pads strides
CumSum: exclusive=0 reverse=0
DFT: axis=1 inverse=0 onesided=0
DeformConv: dilations group=1 kernel_shape offset_group=1 pads strides
DepthToSpace: blocksize mode='DCR'
DequantizeLinear: axis=1 block_size=0 output_dtype=0
Dropout: seed
Einsum: equation
EyeLike: dtype k=0
Flatten: axis=1
GRU: activation_alpha activation_beta activations clip direction='forward' hidden_size layout=0 \
  linear_before_reset=0
Gather GatherElements: axis=0
GatherND: batch_dims=0
Gelu: approximate='none'
Gemm: alpha=1.0 beta=1.0 transA=0 transB=0
GlobalLpPool: p=2
GridSample: align_corners=0 mode='bilinear' padding_mode='zeros'
GroupNormalization: epsilon=1e-05 num_groups stash_type=1
HardSigmoid: alpha=0.2 beta=0.5
Hardmax LogSoftmax OneHot Softmax: axis=-1
InstanceNormalization: epsilon=1e-05
IsInf: detect_negative=1 detect_positive=1
LRN: alpha=0.0001 beta=0.75 bias=1.0 size
LSTM: activation_alpha activation_beta activations clip direction='forward' hidden_size input_forget=0 layout=0
LayerNormalization: axis=-1 epsilon=1e-05 stash_type=1
LeakyRelu: alpha=0.01
LpNormalization: axis=-1 p=2
LpPool: auto_pad='NOTSET' ceil_mode=0 dilations kernel_shape p=2 pads strides
MaxPool: auto_pad='NOTSET' ceil_mode=0 dilations kernel_shape pads storage_order=0 strides
MaxRoiPool: pooled_shape spatial_scale=1.0
MaxUnpool: kernel_shape pads strides
MeanVarianceNormalization: axes=[0,2,3]
MelWeightMatrix: output_datatype=1
Mod: fmod=0
NonMaxSuppression: center_point_box=0
Pad: mode='constant'
QuantizeLinear: axis=1 block_size=0 output_dtype=0 precision=0 saturate=1
RNN: activation_alpha activation_beta activations=['Tanh','Tanh'] clip direction='forward' hidden_size layout=0
ReduceL1 ReduceL2 ReduceLogSum ReduceLogSumExp ReduceMax ReduceMean ReduceMin ReduceProd ReduceSum \
  ReduceSumSquare: keepdims=1 noop_with_empty_axes=0
Reshape: allowzero=0
Resize: antialias=0 axes coordinate_transformation_mode='half_pixel' cubic_coeff_a=-0.75 exclude_outside=0 \
  extrapolation_value=0.0 keep_aspect_ratio_policy='stretch' mode='nearest' nearest_mode='round_prefer_floor'
ReverseSequence: batch_axis=1 time_axis=0
RoiAlign: coordinate_transformation_mode='half_pixel' mode='avg' output_height=1 output_width=1 \
  sampling_ratio=0 spatial_scale=1.0
STFT: onesided=1
ScatterElements: axis=0 reduction='none'
ScatterND: reduction='none'
Selu: alpha=1.6732632 gamma=1.050701
Shape: end start=0
Shrink: bias=0.0 lambd=0.5
SpaceToDepth: blocksize
Split: axis=0 num_outputs
TopK: axis=-1 largest=1 sorted=1
Transpose: perm
Trilu: upper=1
Unique: axis sorted=1
"""
"""Operators with the same attributes, and the attributes: `name=default`, or `name` alone where the schema has no
default. An operator that is not listed has no attributes."""


def _defaults(line: str) -> dict[str, Any]:
    """Return the default of each attribute of a line, None where there is none."""
    pairs = (item.partition("=") for item in line.split())
    return {name: literal_eval(default) if default else None for name, _, default in pairs}


ATTRIBUTES: Mapping[str, Mapping[str, Any]] = {
    op: _defaults(declared)
    for ops, _, declared in (line.partition(":") for line in _ATTRIBUTES.strip().splitlines())
    for op in ops.split()
}
"""Operator -> attribute -> its default; None where the schema has none."""
