// Layers for OpenCV's dnn module (OpenCV 3.4 and 4), generated from NumPy. This file needs OpenCV only.
#include "layers.hpp"

#include <opencv2/core.hpp>
#include <opencv2/dnn.hpp>
#include <opencv2/dnn/layer.details.hpp>
#include <opencv2/dnn/shape_utils.hpp>

#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

