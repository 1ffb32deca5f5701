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
ENTERS = frozenset({"Enter", "RefEnter"})
EXITS = frozenset({"Exit", "RefExit"})
NEXT_ITERATIONS = frozenset({"NextIteration", "RefNextIteration"})
LOOP_CONDITION = "LoopCond"
SWITCHES = frozenset({"Switch", "RefSwitch"})
MERGES = frozenset({"Merge", "RefMerge"})
CONTROL_FLOW = frozenset({LOOP_CONDITION, "Case", "StatelessCase"}).union(
    ENTERS, EXITS, NEXT_ITERATIONS, SWITCHES, MERGES
)
"""Control flow of version 1 (frames and branches), of which what is left is refused, and operations that are not
supported."""
ARGUMENT = "_Arg"
WHILE, IF = "While", "If"
INNER = {
    **dict.fromkeys((WHILE, "StatelessWhile"), ("cond", "body")),
    **dict.fromkeys((IF, "StatelessIf"), ("then_branch", "else_branch")),
}
"""The attributes of operations that name functions which the operation runs."""
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
