"""Limits on what a file may claim. A file beyond a limit is refused before it exhausts memory or time.

Each limit is far above what real networks need.
"""

# every format
MAX_NODES = 50_000
"""Nodes of a network. The nodes of inlined functions and of subgraphs are included."""
MAX_NESTING = 64
"""Levels of nested XML elements or arguments, and of TensorFlow's function calls."""
MAX_GRAPH_NESTING = 32
"""Levels of nested models, subgraphs, ONNX functions or HDF5 groups, and of TensorFlow's messages."""

# Caffe
MAX_BLOBS = 1000
"""Blobs of one layer."""
MAX_BLOB_PIECES = 100_000
"""Runs of values that one blob may be split into."""

# TensorFlow
MAX_FIELD_PIECES = 1 << 20
"""Occurrences of one packed field in a message."""
MAX_LIST_BYTES = 10 << 16
"""Bytes of the packed numbers of one attribute, or entries of any other list."""
MAX_REPEATED_VALUES = 1 << 26
"""Values of a constant that stores several values and repeats the last one."""
MAX_OPERATION_OUTPUTS = 10_000
"""Outputs of one operation."""
MAX_BRANCH_STEPS = 2_000_000
"""Operations visited while branches with a constant condition are searched for."""
MAX_IDENTITIES = 1_000
"""Identities between a value and its use."""
MAX_CHECKPOINT_KEYS = 1_000_000
"""Entries in the table of a checkpoint."""
MAX_CHECKPOINT_SHARDS = 10_000
"""Data files of a checkpoint."""
MAX_RESTORED_NAMES = 1 << 20
"""Names of variables that one restore operation lists."""

# Keras
MAX_JSON_BYTES = 1 << 28
"""Bytes of a model's JSON (256 MiB)."""
MAX_KERAS_NODES = 1 << 20
"""Nodes, and outputs of layers. A nested model that is called many times multiplies its nodes."""
MAX_CALL_OUTPUTS = 1 << 16
"""Outputs of one call of a layer."""
MAX_UNPACK_RATIO = 100
"""Unpacked size of a member of a zip archive, divided by its packed size. Weights hardly compress."""
FREE_UNPACKED_BYTES = 1 << 26
"""Bytes that any member of a zip archive may unpack to, whatever its packed size (64 MiB)."""

# ONNX
MAX_ONNX_BYTES = 1 << 30
"""Bytes of a model without its large arrays (1 GiB). Protobuf itself takes less than 2 GiB."""
MAX_SPARSE_VALUES = 1 << 28
"""Values of the dense array that a sparse array expands to."""

# OpenVINO
MAX_XML_BYTES = 1 << 28
"""Bytes of an IR's XML file (256 MiB)."""
MAX_XML_ELEMENTS = 2_000_000
"""Elements of an IR's XML file."""
