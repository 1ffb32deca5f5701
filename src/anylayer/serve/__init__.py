"""Serve networks over HTTP by the Open Inference Protocol (version 2), on Ray Serve.

`protocol.py` reads and writes messages, `served.py` answers them with a network, `http.py` connects both to HTTP,
and `deployment.py` starts them on Ray Serve.
"""
