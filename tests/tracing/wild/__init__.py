"""Layers and functions with the shapes of code that public repositories have: plain NumPy.

`python -m tests.tracing.wild` prints how many of them are traced, and why the others are not.
"""
