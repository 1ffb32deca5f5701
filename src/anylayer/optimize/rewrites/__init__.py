"""Rewrite rules that make graphs faster, one theme per file. Importing this enters them all."""

from anylayer.folders import load_all

load_all("optimize/rewrites")
