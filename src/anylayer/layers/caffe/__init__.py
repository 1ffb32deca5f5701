"""Caffe's layers, one family per file."""

DIALECTS = ("bvlc", "hed", "rknn", "senet", "sophgo")
"""Forks of Caffe that a network can be read as although no layer class names them."""
