"""Darknet's sections, one family per file."""

DIALECTS = ("opencv",)
"""A dialect that a network can be read as although no layer class names it: it means what none means."""
