"""Rewrite rules that make graphs faster, one theme per file. Importing this package registers all of them."""

from anylayer.folders import load_all

load_all("optimize/rewrites")
