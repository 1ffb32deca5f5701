"""The operations that are the graph's structure and not its arithmetic: what the reader itself must know."""

from __future__ import annotations

INPUTS = frozenset({"Placeholder", "PlaceholderV2", "_Arg"})
CONSTANT = "Const"
PASSES = frozenset({"Identity", "StopGradient", "PreventGradient", "Snapshot", "CheckNumerics", "ReadVariableOp"})
"""Operations that give their first input as it is."""
CALLS = frozenset({"PartitionedCall", "StatefulPartitionedCall"})
"""Calls of the function that attribute `f` names."""
SILENT = frozenset(
    {
        "NoOp",
        "Assert",
        "Print",
        "PrintV2",
        "SaveV2",
        "SaveSlices",
        "ShardedFilename",
        "MergeV2Checkpoints",
        "RestoreV2",
        "Assign",
        "AssignVariableOp",
        "VarHandleOp",
        "VarIsInitializedOp",
        "Variable",
        "VariableV2",
        "WriteFile",
        "MergeSummary",
        "ScalarSummary",
        "HistogramSummary",
        "ImageSummary",
    }
)
"""Operations nobody reads that are no outputs of the network."""
FRAMES = frozenset(
    {
        "Enter",
        "RefEnter",
        "Exit",
        "RefExit",
        "NextIteration",
        "RefNextIteration",
        "LoopCond",
        "Switch",
        "RefSwitch",
        "Merge",
        "RefMerge",
        "While",
        "StatelessWhile",
        "If",
        "StatelessIf",
        "Case",
        "StatelessCase",
        "TensorArrayV3",
        "TensorListReserve",
        "TensorListFromTensor",
        "TensorListStack",
    }
)
"""Control flow, of the first kind (frames) and of the second (functions)."""
SWITCHES = frozenset({"Switch", "RefSwitch"})
MERGES = frozenset({"Merge", "RefMerge"})
LOOPS = frozenset({"Enter", "RefEnter", "NextIteration", "RefNextIteration", "LoopCond"})
DEFAULTED = frozenset({"PlaceholderWithDefault"})
"""Operations that give their input where nothing else is fed."""
VARIABLES = frozenset({"VarHandleOp", "VariableV2", "Variable"})
ASSIGNS = frozenset({"AssignVariableOp", "Assign"})
RESTORE = "RestoreV2"
TRANSPOSE = "Transpose"
RESHAPES = frozenset(("Reshape", "ExpandDims", "Squeeze", "Shape", "Size", "Rank", "MatMul", "Pack", "Unpack"))
"""Operations behind which the axes mean something else."""
QUANTIZED = ("Quantize", "Dequantize", "Requantiz", "_QuantizedConv", "QuantizedConv", "Uniform")
"""How the names of quantised operations begin."""
