"""Rewrite rules that make graphs faster, one theme per file: see optimize/order.py."""
