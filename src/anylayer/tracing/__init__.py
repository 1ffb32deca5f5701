"""Tracing: run a function of NumPy arrays on arrays without data, and get the ONNX operators it amounts to."""

from anylayer.tracing import rules as _rules  # noqa: F401 (enters every rule in the tables)
from anylayer.tracing.array import TracedArray, is_traced
from anylayer.tracing.checked import compare, trace_checked
from anylayer.tracing.reach import Habits, habits
from anylayer.tracing.record import record, record_many, trace
from anylayer.tracing.standin import call_user

__all__ = [
    "Habits",
    "TracedArray",
    "call_user",
    "compare",
    "habits",
    "is_traced",
    "record",
    "record_many",
    "trace",
    "trace_checked",
]
