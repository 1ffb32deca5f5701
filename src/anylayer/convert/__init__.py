"""Conversion: write a network as another format, verify the file against the network, move it into place."""
