"""Tests of MXNet's matrix products."""

from __future__ import annotations

from .recorded import as_recorded

test_operators_match_the_recorded_results = as_recorded(
    "FullyConnected", "dot", "batch_dot", "_linalg_gemm2", "_contrib_div_sqrt_dim", "_linalg_gemm", "_linalg_syrk",
    "_contrib_interleaved_matmul_encdec_qk", "_contrib_interleaved_matmul_encdec_valatt",
    "_contrib_interleaved_matmul_selfatt_qk", "_contrib_interleaved_matmul_selfatt_valatt",
)  # fmt: skip
