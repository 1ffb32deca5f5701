"""Caffe's layers, one per file."""

DIALECTS = ("bvlc", "hed", "senet", "sophgo")
"""Forks of Caffe that a network can be read as although no layer class names them."""
