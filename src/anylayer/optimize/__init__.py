"""Optimization: rewrite a graph into an equal one that an engine runs faster."""
