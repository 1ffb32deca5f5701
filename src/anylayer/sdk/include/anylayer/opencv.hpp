// The names of OpenCV's C++ layers, so that a layer written for OpenCV 3.4's or 4's dnn module compiles with
//
//   #include <anylayer/opencv.hpp>
//
// in place of its own includes of OpenCV. Only what a layer's class needs is here: cv::Mat is anylayer::Tensor, a view
// of an array, and none of OpenCV's functions exist. CV_DNN_REGISTER_LAYER_CLASS registers when the library is loaded, also where it
// stands inside a function.
#ifndef ANYLAYER_OPENCV_HPP
#define ANYLAYER_OPENCV_HPP

#include "layer.hpp"

namespace cv {

using Mat = anylayer::Tensor;
using MatSize = anylayer::Sizes;
using InputArrayOfArrays = anylayer::InputArrays;
using OutputArrayOfArrays = anylayer::OutputArrays;
template <typename T>
using Ptr = std::shared_ptr<T>;
using String = std::string;

namespace dnn {
using Layer = anylayer::Layer;
using LayerParams = anylayer::LayerParams;
using MatShape = std::vector<int>;
}  // namespace dnn
}  // namespace cv

#define CV_OVERRIDE override
#define CV_FINAL final
#define CV_UNUSED(name) (void)name
#define CV_Assert(condition) ANYLAYER_ASSERT(condition)
#define CV_8U 0
#define CV_8S 1
#define CV_16U 2
#define CV_16S 3
#define CV_32S 4
#define CV_32F 5
#define CV_64F 6
#define CV_8UC1 CV_8U
#define CV_32SC1 CV_32S
#define CV_32FC1 CV_32F
#define CV_64FC1 CV_64F
#define CV_DNN_REGISTER_LAYER_CLASS(type, cls) ANYLAYER_REGISTER_LAYER(type, cls)

#endif
