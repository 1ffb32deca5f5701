"""Tracing rules: what NumPy's functions, ufuncs, methods and attributes record.

Importing this package registers all of them.
"""

from anylayer.folders import load_all

load_all("tracing/rules")
