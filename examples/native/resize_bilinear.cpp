// TensorFlow's ResizeBilinear, as OpenCV's tutorial on custom layers has it: the size is one constant of two values
// (height, width), or two constants that are factors. As in OpenCV, constants arrive as blobs, and the arrays of a
// channels-last network as (N, C, H, W).
#include <anylayer/layer.hpp>

#include <cmath>

namespace {

using namespace anylayer;

class ResizeBilinearLayer final : public Layer {
 public:
  explicit ResizeBilinearLayer(const LayerParams& params) : Layer(params) {
    ANYLAYER_ASSERT(!params.get<bool>("align_corners", false));
    ANYLAYER_ASSERT(!params.get<bool>("half_pixel_centers", false));
    ANYLAYER_ASSERT(!blobs.empty());
    for (const Tensor& blob : blobs) ANYLAYER_ASSERT(blob.dtype() == DataType::int32);
    if (blobs.size() == 1) {
      ANYLAYER_ASSERT(blobs[0].total() == 2);
      height_ = blobs[0].at<int>(0, 0);
      width_ = blobs[0].at<int>(0, 1);
    } else {
      ANYLAYER_ASSERT(blobs.size() == 2 && blobs[0].total() == 1 && blobs[1].total() == 1);
      row_factor_ = blobs[0].at<int>(0, 0);
      column_factor_ = blobs[1].at<int>(0, 0);
    }
  }

  bool getMemoryShapes(const Shapes& inputs, const int, Shapes& outputs, Shapes&) const override {
    ANYLAYER_ASSERT(inputs.size() == 1 && inputs[0].size() == 4);
    const int height = height_ ? height_ : inputs[0][2] * row_factor_;
    const int width = width_ ? width_ : inputs[0][3] * column_factor_;
    outputs.assign(1, {inputs[0][0], inputs[0][1], height, width});
    return false;
  }

  bool reentrant() const override { return true; }

  void forward(InputArrays inputs, OutputArrays outputs, OutputArrays) override {
    const Tensor& in = inputs[0];
    const Tensor& out = outputs[0];
    const int height = in.size[2], width = in.size[3], out_height = out.size[2], out_width = out.size[3];
    const float row_scale = static_cast<float>(height) / out_height;
    const float column_scale = static_cast<float>(width) / out_width;
    const float* from = in.ptr<float>();
    float* to = out.ptr<float>();
    const int64_t rows = static_cast<int64_t>(in.size[0]) * in.size[1] * out_height;
    parallel_for(rows, 1 + (1 << 15) / out_width, [=](int64_t begin, int64_t end) {
      for (int64_t row = begin; row < end; ++row) {
        const float y = static_cast<float>(row % out_height) * row_scale;
        const int y0 = static_cast<int>(std::floor(y));
        const float* above = from + ((row / out_height) * height + y0) * width;
        const float* below = y0 + 1 < height ? above + width : above;
        const float low = y - y0;
        for (int column = 0; column < out_width; ++column) {
          const float x = column * column_scale;
          const int x0 = static_cast<int>(std::floor(x)), x1 = std::min(x0 + 1, width - 1);
          const float right = x - x0;
          to[row * out_width + column] = above[x0] * (1 - low) * (1 - right) + below[x0] * low * (1 - right) +
                                         above[x1] * (1 - low) * right + below[x1] * low * right;
        }
      }
    });
  }

 private:
  int width_ = 0, height_ = 0, row_factor_ = 0, column_factor_ = 0;
};

}  // namespace

ANYLAYER_REGISTER_NAMED_LAYER("ResizeBilinear", ResizeBilinearLayer, "TensorFlow 1's bilinear resize.")
