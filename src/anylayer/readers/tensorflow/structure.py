"""The operations that form a graph, as opposed to those that compute values. The reader treats them specially."""

from __future__ import annotations

INPUTS = frozenset({"Placeholder", "PlaceholderV2", "_Arg"})
CONSTANT = "Const"
IDENTITIES = frozenset(
    {"Identity", "StopGradient", "PreventGradient", "Snapshot", "CheckNumerics", "ReadVariableOp"}
)
"""Operations whose output is their first input."""
CALLS = frozenset({"PartitionedCall", "StatefulPartitionedCall"})
"""Operations that call the function that attribute `f` names."""
NEVER_OUTPUTS = frozenset((
    "NoOp", "Assert", "Print", "PrintV2", "SaveV2", "SaveSlices", "ShardedFilename", "MergeV2Checkpoints",
    "RestoreV2", "Assign", "AssignVariableOp", "VarHandleOp", "VarIsInitializedOp", "Variable", "VariableV2",
    "WriteFile", "MergeSummary", "ScalarSummary", "HistogramSummary", "ImageSummary",
))  # fmt: skip
"""Operations that are not outputs of the network although they have no consumers."""
CONTROL_FLOW = frozenset((
    "Enter", "RefEnter", "Exit", "RefExit", "NextIteration", "RefNextIteration", "LoopCond", "Switch", "RefSwitch",
    "Merge", "RefMerge", "While", "StatelessWhile", "If", "StatelessIf", "Case", "StatelessCase", "TensorArrayV3",
    "TensorListReserve", "TensorListFromTensor", "TensorListStack",
))  # fmt: skip
"""Control flow of version 1 (frames) and of version 2 (functions)."""
SWITCHES = frozenset({"Switch", "RefSwitch"})
MERGES = frozenset({"Merge", "RefMerge"})
LOOPS = frozenset({"Enter", "RefEnter", "NextIteration", "RefNextIteration", "LoopCond"})
DEFAULT_INPUTS = frozenset({"PlaceholderWithDefault"})
"""Inputs with a default value, which is their own first input."""
VARIABLES = frozenset({"VarHandleOp", "VariableV2", "Variable"})
ASSIGNS = frozenset({"AssignVariableOp", "Assign"})
RESTORE = "RestoreV2"
TRANSPOSE = "Transpose"
RESHAPES = frozenset(("Reshape", "ExpandDims", "Squeeze", "Shape", "Size", "Rank", "MatMul", "Pack", "Unpack"))
"""Operations after which the axes have another meaning."""
QUANTIZED = ("Quantize", "Dequantize", "Requantiz", "_QuantizedConv", "QuantizedConv", "Uniform")
"""How the types of quantized operations begin."""
