"""Conversion: write a network as a file, verify it against its source, move it into place."""
