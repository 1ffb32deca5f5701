"""Tracing rules: what NumPy's functions, ufuncs, methods and attributes record. Importing this enters them all."""

from anylayer.folders import load_all

load_all("tracing/rules")
