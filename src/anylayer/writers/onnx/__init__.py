"""Write ONNX: models in memory for engines (to_onnx, to_half), and .onnx files (write)."""

from __future__ import annotations

from anylayer.writers.onnx.files import EXACT_PRODUCTS, OPTIONS, QUANTIZED, RUNS, SUFFIXES, WHAT, write
from anylayer.writers.onnx.half import to_half
from anylayer.writers.onnx.model import to_onnx

__all__ = ["EXACT_PRODUCTS", "OPTIONS", "QUANTIZED", "RUNS", "SUFFIXES", "WHAT", "to_half", "to_onnx", "write"]
