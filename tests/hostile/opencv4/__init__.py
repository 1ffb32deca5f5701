"""Compare random Caffe networks of layers that OpenCV has with OpenCV 4: `python -m tests.hostile.opencv4`.

Each difference is a fault of anylayer, or a row of `stated.py`, which names the rule of OpenCV and its source file.
"""
