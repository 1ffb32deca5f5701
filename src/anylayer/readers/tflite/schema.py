"""The schema of TFLite files: their tables, the options of operators, and the names of enumerations.

Source: tensorflow/lite/schema/schema.fbs of TensorFlow.
"""

from __future__ import annotations

import re

CONSTANT = "CONSTANT"
"""The type of the nodes of constant tensors, for which the file has no operator."""

TABLES = {
    name: {field: i for i, field in enumerate(fields.split())}
    for name, fields in {
        "Model": "version operator_codes subgraphs description buffers metadata_buffer metadata signature_defs "
        "external_buffer_groups external_buffers",
        "SubGraph": "tensors inputs outputs operators name debug_metadata_index",
        "Tensor": "shape type buffer name quantization is_variable sparsity shape_signature has_rank "
        "variant_tensors external_buffer",
        "Operator": "opcode_index inputs outputs builtin_options_type builtin_options custom_options "
        "custom_options_format mutating_variable_inputs intermediates large_custom_options_offset "
        "large_custom_options_size builtin_options_2_type builtin_options_2 debug_metadata_index",
        "OperatorCode": "deprecated_builtin_code custom_code version builtin_code",
        "Buffer": "data offset size",
        "SparsityParameters": "traversal_order block_map dim_metadata",
        "DimensionMetadata": "format dense_size array_segments_type array_segments array_indices_type "
        "array_indices",
        "SignatureDef": "inputs outputs signature_key deprecated_tag subgraph_index",
        "TensorMap": "name tensor_index",
        "Metadata": "name buffer",
        "ModelMetadata": "name description version subgraph_metadata",
        "SubGraphMetadata": "name description input_tensor_metadata output_tensor_metadata",
        "TensorMetadata": "name description dimension_names content process_units stats associated_files",
        "Content": "content_properties_type content_properties range",
        "ImageProperties": "color_space default_size",
        "ProcessUnit": "options_type options",
        "NormalizationOptions": "mean std",
        "AssociatedFile": "name description type locale version",
        "StableHLOCompositeOptions": "name decomposition_subgraph_index",
        "QuantizationParameters": "min max scale zero_point details_type details quantized_dimension",
    }.items()
}
"""The number of each field, by table."""

ENUMS = {
    "Padding": "SAME VALID",
    "Activation": "NONE RELU RELU_N1_TO_1 RELU6 TANH SIGN_BIT",
    "MirrorPad": "REFLECT SYMMETRIC",
    "WeightsFormat": "DEFAULT SHUFFLED4x16INT8",
    "TensorType": "float32 float16 int32 uint8 int64 string bool int16 complex64 int8 float64 complex128 uint64 "
    "resource variant uint32 uint16 int4 bfloat16 int2 uint4 float8_e4m3fn float8_e5m2",
}
"""The names of the values of enumerations, from 0 on."""

_OPERATORS = """
ADD AVERAGE_POOL_2D CONCATENATION CONV_2D DEPTHWISE_CONV_2D DEPTH_TO_SPACE DEQUANTIZE EMBEDDING_LOOKUP FLOOR
FULLY_CONNECTED HASHTABLE_LOOKUP L2_NORMALIZATION L2_POOL_2D LOCAL_RESPONSE_NORMALIZATION LOGISTIC
LSH_PROJECTION LSTM MAX_POOL_2D MUL RELU RELU_N1_TO_1 RELU6 RESHAPE RESIZE_BILINEAR RNN SOFTMAX SPACE_TO_DEPTH
SVDF TANH CONCAT_EMBEDDINGS SKIP_GRAM CALL CUSTOM EMBEDDING_LOOKUP_SPARSE PAD UNIDIRECTIONAL_SEQUENCE_RNN GATHER
BATCH_TO_SPACE_ND SPACE_TO_BATCH_ND TRANSPOSE MEAN SUB DIV SQUEEZE UNIDIRECTIONAL_SEQUENCE_LSTM STRIDED_SLICE
BIDIRECTIONAL_SEQUENCE_RNN EXP TOPK_V2 SPLIT LOG_SOFTMAX DELEGATE BIDIRECTIONAL_SEQUENCE_LSTM CAST PRELU MAXIMUM
ARG_MAX MINIMUM LESS NEG PADV2 GREATER GREATER_EQUAL LESS_EQUAL SELECT SLICE SIN TRANSPOSE_CONV SPARSE_TO_DENSE
TILE EXPAND_DIMS EQUAL NOT_EQUAL LOG SUM SQRT RSQRT SHAPE POW ARG_MIN FAKE_QUANT REDUCE_PROD REDUCE_MAX PACK
LOGICAL_OR ONE_HOT LOGICAL_AND LOGICAL_NOT UNPACK REDUCE_MIN FLOOR_DIV REDUCE_ANY SQUARE ZEROS_LIKE FILL
FLOOR_MOD RANGE RESIZE_NEAREST_NEIGHBOR LEAKY_RELU SQUARED_DIFFERENCE MIRROR_PAD ABS SPLIT_V UNIQUE CEIL
REVERSE_V2 ADD_N GATHER_ND COS WHERE RANK ELU REVERSE_SEQUENCE MATRIX_DIAG QUANTIZE MATRIX_SET_DIAG ROUND
HARD_SWISH IF WHILE NON_MAX_SUPPRESSION_V4 NON_MAX_SUPPRESSION_V5 SCATTER_ND SELECT_V2 DENSIFY SEGMENT_SUM
BATCH_MATMUL PLACEHOLDER_FOR_GREATER_OP_CODES CUMSUM CALL_ONCE BROADCAST_TO RFFT2D CONV_3D IMAG REAL COMPLEX_ABS
HASHTABLE HASHTABLE_FIND HASHTABLE_IMPORT HASHTABLE_SIZE REDUCE_ALL CONV_3D_TRANSPOSE VAR_HANDLE READ_VARIABLE
ASSIGN_VARIABLE BROADCAST_ARGS RANDOM_STANDARD_NORMAL BUCKETIZE RANDOM_UNIFORM MULTINOMIAL GELU
DYNAMIC_UPDATE_SLICE RELU_0_TO_1 UNSORTED_SEGMENT_PROD UNSORTED_SEGMENT_MAX UNSORTED_SEGMENT_SUM ATAN2
UNSORTED_SEGMENT_MIN SIGN BITCAST BITWISE_XOR RIGHT_SHIFT
"""
OPERATORS = {**dict(enumerate(_OPERATORS.split())), 206: "STABLEHLO_COMPOSITE"}
"""The names of builtin operators by number. Of those of StableHLO, only the one that runs a subgraph is known."""

_OPTIONS = """
Conv2D(padding:Padding stride_w:i stride_h:i fused_activation_function:Activation dilation_w_factor:i=1
dilation_h_factor:i=1 quantized_bias_type:TensorType) DepthwiseConv2D(padding:Padding stride_w:i stride_h:i
depth_multiplier:i fused_activation_function:Activation dilation_w_factor:i=1 dilation_h_factor:i=1)
ConcatEmbeddings(num_channels:i num_columns_per_channel:[i embedding_dim_per_channel:[i) LSHProjection(type:b)
Pool2D(padding:Padding stride_w:i stride_h:i filter_width:i filter_height:i
fused_activation_function:Activation) SVDF(rank:i fused_activation_function:Activation
asymmetric_quantize_inputs:?) RNN(fused_activation_function:Activation asymmetric_quantize_inputs:?)
FullyConnected(fused_activation_function:Activation weights_format:WeightsFormat keep_num_dims:?
asymmetric_quantize_inputs:? quantized_bias_type:TensorType quant_spec:[B) Softmax(beta:f) Concatenation(axis:i
fused_activation_function:Activation) Add(fused_activation_function:Activation pot_scale_int16:?)
L2Norm(fused_activation_function:Activation) LocalResponseNormalization(radius:i bias:f alpha:f beta:f)
LSTM(fused_activation_function:Activation cell_clip:f proj_clip:f kernel_type:b asymmetric_quantize_inputs:?)
ResizeBilinear(_ _ align_corners:? half_pixel_centers:?) Call(subgraph:I) Reshape(new_shape:[i)
SkipGram(ngram_size:i max_skip_size:i include_all_ngrams:?) SpaceToDepth(block_size:i)
EmbeddingLookupSparse(combiner:b) Mul(fused_activation_function:Activation) Pad() Gather(axis:i batch_dims:i)
BatchToSpaceND() SpaceToBatchND() Transpose() Reducer(keep_dims:?) Sub(fused_activation_function:Activation
pot_scale_int16:?) Div(fused_activation_function:Activation) Squeeze(squeeze_dims:[i) SequenceRNN(time_major:?
fused_activation_function:Activation asymmetric_quantize_inputs:?) StridedSlice(begin_mask:i end_mask:i
ellipsis_mask:i new_axis_mask:i shrink_axis_mask:i offset:?) Exp() TopKV2() Split(num_splits:i) LogSoftmax()
Cast(in_data_type:TensorType out_data_type:TensorType) Dequantize() MaximumMinimum()
ArgMax(output_type:TensorType) Less() Neg() PadV2() Greater() GreaterEqual() LessEqual() Select() Slice()
TransposeConv(padding:Padding stride_w:i stride_h:i fused_activation_function:Activation
quantized_bias_type:TensorType) SparseToDense(validate_indices:?) Tile() ExpandDims() Equal() NotEqual()
Shape(out_type:TensorType) Pow() ArgMin(output_type:TensorType) FakeQuant(min:f max:f num_bits:i narrow_range:?)
Pack(values_count:i axis:i) LogicalOr() OneHot(axis:i) LogicalAnd() LogicalNot() Unpack(num:i axis:i) FloorDiv()
Square() ZerosLike() Fill() BidirectionalSequenceLSTM(fused_activation_function:Activation cell_clip:f
proj_clip:f merge_outputs:? time_major:?=1 asymmetric_quantize_inputs:?) BidirectionalSequenceRNN(time_major:?
fused_activation_function:Activation merge_outputs:? asymmetric_quantize_inputs:?)
UnidirectionalSequenceLSTM(fused_activation_function:Activation cell_clip:f proj_clip:f time_major:?
asymmetric_quantize_inputs:? diagonal_recurrent_tensors:?) FloorMod() Range()
ResizeNearestNeighbor(align_corners:? half_pixel_centers:?) LeakyRelu(alpha:f) SquaredDifference()
MirrorPad(mode:MirrorPad) Abs() SplitV(num_splits:i) Unique(idx_out_type:TensorType) ReverseV2() AddN()
GatherNd() Cos() Where() Rank() ReverseSequence(seq_dim:i batch_dim:i) MatrixDiag() Quantize() MatrixSetDiag()
HardSwish() If(then_subgraph_index:i else_subgraph_index:i) While(cond_subgraph_index:i body_subgraph_index:i)
DepthToSpace(block_size:i) NonMaxSuppressionV4() NonMaxSuppressionV5() ScatterNd() SelectV2() Densify()
SegmentSum() BatchMatMul(adj_x:? adj_y:? asymmetric_quantize_inputs:?) Cumsum(exclusive:? reverse:?)
CallOnce(init_subgraph_index:i) BroadcastTo() Rfft2d() Conv3D(padding:Padding stride_d:i stride_w:i stride_h:i
fused_activation_function:Activation dilation_d_factor:i=1 dilation_w_factor:i=1 dilation_h_factor:i=1)
Hashtable(table_id:i key_dtype:TensorType value_dtype:TensorType) HashtableFind() HashtableImport()
HashtableSize() VarHandle(container:s shared_name:s) ReadVariable() AssignVariable() Random(seed:q seed2:q)
Bucketize(boundaries:[f) Gelu(approximate:?) DynamicUpdateSlice() UnsortedSegmentProd() UnsortedSegmentMax()
UnsortedSegmentMin() UnsortedSegmentSum() ATan2() Sign() Bitcast() BitwiseXor() RightShift()
"""


def _tables(text: str) -> list[list[tuple[str, str, int]]]:
    """Return the fields of tables: name, type (of `struct`, "s", an enumeration; "[": a vector), default."""
    tables: list[list[tuple[str, str, int]]] = [[]]  # number 0 is NONE
    for _, fields in re.findall(r"(\w+)\(([^)]*)\)", text):
        words = [field.partition(":")[::2] for field in " ".join(fields.split()).split()]
        tables.append([(name, kind.partition("=")[0], int(kind.partition("=")[2] or 0)) for name, kind in words])
    return tables


OPTIONS = _tables(_OPTIONS)
"""The fields of the options of operators, by their number in Operator.builtin_options_type."""

SUBGRAPHS = {
    "IF": {"then_subgraph_index": "then_branch", "else_subgraph_index": "else_branch"},
    "WHILE": {"cond_subgraph_index": "cond", "body_subgraph_index": "body"},
    "CALL_ONCE": {"init_subgraph_index": "body"},
    "STABLEHLO_COMPOSITE": {"decomposition_subgraph_index": "body"},
}
"""The options that are the numbers of subgraphs, and the params that are these subgraphs."""

STATES = {
    "UNIDIRECTIONAL_SEQUENCE_LSTM": (18, 19),
    "BIDIRECTIONAL_SEQUENCE_LSTM": (35, 36, 37, 38),
    "UNIDIRECTIONAL_SEQUENCE_RNN": (4,),
    "BIDIRECTIONAL_SEQUENCE_RNN": (4, 8),
}
"""The inputs that are variables, which hold the state of a sequence."""

STEPS = {"SVDF": (4,), "RNN": (4,), "LSTM": (18, 19)}
"""The inputs that are variables, which hold the state between two steps of a sequence."""

VARIABLES = {"VAR_HANDLE": (0, 0, 1), "READ_VARIABLE": (1, 1, 1), "ASSIGN_VARIABLE": (2, 2, 0)}
"""Operators of variables, and how many arguments, inputs and outputs they have."""

READ = "READ_VARIABLE"
"""The operator whose output is the value of a variable."""

REAL_PART = ("CAST", "REAL")
"""The type of an operator that casts complex numbers to real ones, and of the one that computes the same."""

COMPLEX = ("RFFT2D", "REAL", "IMAG", "COMPLEX_ABS", "SQUEEZE", "EXPAND_DIMS", "RESHAPE")
"""Operators that take or return complex numbers, which are pairs of real ones along one more axis."""
