"""Recognise what a file is from its first bytes, so that an error can name what was given instead of a network."""

from __future__ import annotations

import os
import re
from itertools import islice
from pathlib import Path

from anylayer.errors import FileError
from anylayer.protobuf.binary import Bytes

_HEAD = 1 << 16
"""Bytes at the beginning of a file that are looked at."""
_MAX_FIELDS = 64
"""Protobuf fields at the beginning of a file that are looked at."""
_MAGIC = (
    (b"\x89PNG\r\n\x1a\n", "a picture (PNG)"),
    (b"\xff\xd8\xff", "a picture (JPEG)"),
    (b"GIF8", "a picture (GIF)"),
    (b"BM", "a picture (BMP)"),
    (b"II*\x00", "a picture (TIFF)"),
    (b"MM\x00*", "a picture (TIFF)"),
    (b"\x89HDF\r\n\x1a\n", "an HDF5 file"),
    (b"\x93NUMPY", "a NumPy array (.npy)"),
    (b"\x1f\x8b", "a gzip archive"),
    (b"BZh", "a bzip2 archive"),
    (b"\xfd7zXZ", "an xz archive"),
    (b"7z\xbc\xaf", "a 7z archive"),
    (b"Rar!", "a rar archive"),
    (b"%PDF", "a PDF document"),
    (b"\x7fELF", "a program or shared library"),
    (b"version https://git-lfs", "a Git LFS pointer (download the file itself with git lfs pull)"),
    (b"7767517", "an ncnn network"),
    (b"\x12\x01\0\0\0\0\0\0", "weights of an MXNet network"),
    (b"\xff\xfe", "a text in UTF-16 (save it in UTF-8)"),
    (b"\xfe\xff", "a text in UTF-16 (save it in UTF-8)"),
)
_ZIPPED = (
    (rb"config\.json|metadata\.json|model\.weights\.h5", "a Keras model (.keras)"),
    (rb".*/?(data\.pkl|version|\.data/.*)", "a PyTorch checkpoint"),
    (rb".*\.npy", "a NumPy archive (.npz)"),
)
_MARKUP = (
    (rb"(?i)\s*<(!doctype\s+html|html)", "a web page (the download returned a page instead of the file)"),
    (rb"(?s)\s*(<\?xml[^>]*>\s*)?(<!--((?!-->).)*-->\s*)*(<!DOCTYPE\s.*?)?<net\b", "an OpenVINO model (IR)"),
    (
        rb"(?s).*<CustomKernelsMapping\b",
        "a CustomLayersMapping.xml (it let Model Optimizer run layers in Caffe itself, and is not needed: read "
        "the network with a layers file that holds the class of each layer)",
    ),
    (rb"(?s)\s*(<\?xml[^>]*>\s*)?(<!--((?!-->).)*-->\s*)*<CustomLayer\b", "a configuration of OpenCL kernels"),
    (rb"\s*<\?xml", "an XML file"),
    (rb'(?s)\s*\{(\s*"arg_nodes"\s*:|(?=.*"op"\s*:\s*").*"nodes"\s*:\s*\[)', "an MXNet network (symbol)"),
    (rb"\s*(\{\s*(\"|\})|\[\s*[\[{\"])", "a JSON file"),
    (rb"(\s|[#;][^\n]*\n)*\[\s*(net|network)\s*\]", "a Darknet network (.cfg)"),
    (rb"(\s|[#;][^\n]*\n)*\[[A-Za-z][^\]\n]*\]\s*\n", "a configuration file (INI)"),
    (rb"(\s|#[^\n]*\n)*(node|library|versions)\s*:?\s*[{<]", "a TensorFlow graph (text)"),
    (rb"(\s|#[^\n]*\n)*saved_model_schema_version\s*:", "a TensorFlow SavedModel (text)"),
)


_ONNX_FIRST = "export the model as ONNX"
_INSTEAD = {
    **dict.fromkeys(
        (f"a {kind} archive" for kind in ("zip", "gzip", "7z", "rar")),
        "unpack it, and give a file or folder of it",
    ),
    "a PyTorch checkpoint": f"{_ONNX_FIRST} with torch.onnx.export",
    "a TorchScript program": f"{_ONNX_FIRST} with torch.onnx.export(torch.jit.load(path), ...)",
    "an HDF5 file": "if these are the weights of a network, give the network first (.json, .keras, .prototxt, or "
    "what model.to_json() returns), and this file after it",
    "a Python pickle": f"if PyTorch wrote it, {_ONNX_FIRST} with torch.onnx.export",
    "an ncnn network": "give the file that it was made from",
    "a configuration file (INI)": "a Darknet network (.cfg) begins with a section [net]",
    "weights of a Darknet network": "give the network (.cfg) first, and this file after it",
    "weights of an MXNet network": "give the network (-symbol.json) first, and this file after it",
    "a TensorRT engine": "give the ONNX file that it was built from",
    "a PaddlePaddle model": f"{_ONNX_FIRST} with paddle2onnx",
    "a Paddle Lite model": f"{_ONNX_FIRST} with paddle2onnx, from the .pdmodel that it was made from",
    "a Core ML model": "give the model that it was made from",
    "a file of weights": "give the model (.xml) that it belongs to",
    "a Torch 7 model": "convert it to ONNX or Caffe first",
    "the index of a TensorFlow checkpoint": "give the .meta file of the checkpoint, which has the graph",
}
"""What to do with files that no reader takes."""
_SUFFIXES = {
    **dict.fromkeys((".engine", ".plan", ".trt"), "a TensorRT engine"),
    **dict.fromkeys((".pdmodel", ".pdiparams"), "a PaddlePaddle model"),
    ".nb": "a Paddle Lite model",
    ".bin": "a file of weights",
    ".mlmodel": "a Core ML model",
    ".weights": "weights of a Darknet network",
    ".t7": "a Torch 7 model",
    ".index": "the index of a TensorFlow checkpoint",
}
"""Suffixes of binary files whose first bytes say nothing."""


def unread(path: Path) -> tuple[str, str]:
    """Return what a file that no reader takes is, and a sentence that says what to do; "" if nothing is known."""
    what = describe(path)
    named = "" if what or is_text(path) else _SUFFIXES.get(path.suffix.lower(), "")
    remedy = _INSTEAD.get(what or named, "")
    shown = what or (f"{named}, judged by its name" if named else "nothing anylayer knows")
    return shown, f". {remedy[0].upper()}{remedy[1:]}" if remedy else ""


def describe(path: Path) -> str:
    """Return what a file is ("a picture (PNG)"), or "" if its first bytes are not conclusive.

    Protobuf files have no signature. Their field numbers and wire types distinguish "a Caffe model (binary)",
    "an ONNX model", "a TensorFlow graph", "a Caffe blob (.binaryproto)" and "a Caffe solver state", among others.
    """
    with path.open("rb") as handle:
        head = handle.read(_HEAD)
        size = os.fstat(handle.fileno()).st_size
        handle.seek(max(size - _HEAD, 0))
        tail = handle.read(_HEAD)
    if not head:
        return "an empty file"
    for magic, name in _MAGIC:
        if head.startswith(magic) and not (magic == b"BM" and _is_text(head)):
            return name
    if head[:4] == b"RIFF" and head[8:12] == b"WEBP":
        return "a picture (WebP)"
    if head[4:8] == b"TFL3":
        return "a TensorFlow Lite model"
    if head.startswith(b"PK\x03\x04"):
        if b"/code/__torch__" in tail:  # in the list of the archive's files
            return "a TorchScript program"
        inner = head[30 : 30 + int.from_bytes(head[26:28], "little")]
        return next((n for p, n in _ZIPPED if re.fullmatch(p, inner, re.DOTALL)), "a zip archive")
    if len(head) > 1 and head[0] == 0x80 and head[1] in (2, 3, 4, 5):
        return "a Python pickle"
    if _is_text(head):
        text = head[:4096].removeprefix(b"\xef\xbb\xbf")
        return next((name for pattern, name in _MARKUP if re.match(pattern, text)), "")
    return _protobuf(head, size)


_CONTROL = re.compile(rb"[\x00-\x08\x0e-\x1a\x1c-\x1f]")
"""The control characters except white space and ESC."""


def _is_text(head: bytes) -> bool:
    return _CONTROL.search(head) is None


def is_text(path: Path) -> bool:
    """Return whether a file begins with text: it has no control characters except white space and ESC."""
    with path.open("rb") as handle:
        return _is_text(handle.read(_HEAD))


def _protobuf(head: bytes, size: int) -> str:
    """Return which protobuf message a file of `size` bytes holds, judged by its first fields; "" if none fits."""
    fields = _fields(head, size)
    kinds = {(number, kind) for number, kind, _, _ in fields}
    if not kinds:
        return ""
    if (1, 0) in kinds and ((7, 2) in kinds or (8, 2) in kinds) and kinds <= _ONNX and (5, 2) not in kinds:
        return "an ONNX model"
    if kinds <= {(n, 0) for n in (1, 2, 3, 4)} | {(n, 2) for n in (5, 6, 7, 8, 9)} | {(5, 5), (8, 1)}:
        return "a Caffe blob (.binaryproto)" if kinds & {(5, 2), (5, 5), (8, 2), (8, 1)} else ""
    if {(1, 0), (3, 2)} <= kinds <= {(1, 0), (2, 2), (3, 2), (4, 0)}:
        return "a Caffe solver state"
    nodes = [(head[low:high], high - low) for number, kind, low, high in fields if (number, kind) == (1, 2)]
    if nodes and kinds <= _GRAPH and all(_is_node(text, length) for text, length in nodes):
        return "a TensorFlow graph"
    if kinds == {(1, 0), (2, 2)}:
        return "a TensorFlow SavedModel"
    if len(nodes) == 1 and kinds <= _META and sum(f[:2] == (2, 2) for f in fields) == 1 and _is_info(*nodes[0]):
        return "a TensorFlow checkpoint's graph"
    if kinds & {(2, 2), (100, 2)} and (1, 0) not in kinds:
        return "a Caffe model (binary)"
    return ""


_ONNX = {(n, 0) for n in (1, 5)} | {(n, 2) for n in (2, 3, 4, 6, 7, 8, 14, 20, 25, 26)}
"""The fields of an ONNX ModelProto, as (number, wire type)."""
_GRAPH = {(1, 2), (2, 2), (3, 0), (4, 2), (5, 2)}
"""The fields of a TensorFlow GraphDef."""
_META = {(n, 2) for n in range(1, 9)}
"""The fields of a TensorFlow MetaGraphDef."""


def _is_info(text: bytes, size: int) -> bool:
    """Return whether a message of `size` bytes that begins with `text` is a MetaInfoDef.

    It holds lists of operations and TensorFlow's version. A Caffe network has its name in the same field.
    """
    numbers = {(n, k) for n, k, _, _ in _fields(text, size)}
    return (2, 2) in numbers and numbers <= {(n, 2) for n in range(1, 7)} | {(7, 0), (8, 2)}


def _is_node(text: bytes, size: int) -> bool:
    """Return whether a message of `size` bytes that begins with `text` is a NodeDef: a name, then an op."""
    fields = _fields(text, size)
    kinds = {(n, k) for n, k, _, _ in fields}
    if not fields:
        return len(text) < 4 and size > len(text)  # the bytes read from the file end inside the first field
    return fields[0][:2] == (1, 2) and (kinds >= {(1, 2), (2, 2)} or fields[-1][3] >= len(text) < size)


class _FirstBytes(Bytes):
    """The first bytes of a file. A number that reaches their end raises IndexError."""

    def varint(self, position: int, end: int) -> tuple[int, int]:
        """Return a number and the position after it, however near `end` is."""
        return super().varint(position, end + 10)


def _fields(head: bytes, size: int) -> list[tuple[int, int, int, int]]:
    """Return the first fields of a protobuf message of `size` bytes: number, wire type, start and stop of the
    value.

    The list is empty if the bytes are not a protobuf message.
    """
    fields: list[tuple[int, int, int, int]] = []
    try:
        fields.extend(islice(_FirstBytes(head).fields(0, size), _MAX_FIELDS))
    except IndexError:
        return fields
    except FileError:
        return []
    return fields
