"""C++ sources that the part `native` builds: one loop as a layer of anylayer, OpenCV and OpenVINO, and a layer of
a library as an operator of an engine.
"""
