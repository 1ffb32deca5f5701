"""Inspect a network: a report of its nodes, its verification, its profile."""
