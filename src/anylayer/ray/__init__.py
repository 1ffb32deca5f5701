"""Run networks on the processes of a Ray cluster."""
