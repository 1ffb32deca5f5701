"""Conversion: write a network as a file of another format, verify the file against the network, move it into
place."""
