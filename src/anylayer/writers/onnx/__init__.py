"""ONNX: graphs for the engines, and models as files."""

from __future__ import annotations

from anylayer.writers.onnx.files import OPTIONS, RUNS, SUFFIXES, WHAT, write
from anylayer.writers.onnx.model import to_onnx

__all__ = ["OPTIONS", "RUNS", "SUFFIXES", "WHAT", "to_onnx", "write"]
