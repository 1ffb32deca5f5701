"""Compilation: from a network to traced nodes, and from those to a plan of graphs and host calls."""
