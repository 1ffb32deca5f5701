"""C++ sources that the part `native` builds: one loop as a layer of anylayer, OpenCV and OpenVINO."""
