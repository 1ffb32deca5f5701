"""Compare random Caffe networks of layers that OpenCV has with OpenCV 4: `python -m tests.hostile.opencv4`.

A difference is a fault of anylayer, unless a row of `stated.py` names OpenCV's rule and its source file.
"""
