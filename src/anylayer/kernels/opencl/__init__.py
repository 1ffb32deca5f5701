"""Native kernels in OpenCL: configuration files of 2018's Inference Engine and of OpenVINO.

configuration.py  reads a configuration file (XML) formulas.py       parses the formulas of work sizes defines.py
writes the #define lines before a kernel's source layer.py          a layer type of a configuration, and an
instance of it for one node call.py           runs an instance on a device files.py          finds the
configurations, and writes the dumped programs
"""
