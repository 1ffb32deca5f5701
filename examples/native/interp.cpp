// Bilinear interpolation whose corners keep their places: DeepLab's Interp, as OpenCV's tutorial on custom layers has
// it. (N, C, H, W) becomes (N, C, height, width).
#include <anylayer/layer.hpp>

namespace {

using namespace anylayer;

class InterpLayer : public Layer {
 public:
  explicit InterpLayer(const LayerParams& params) : Layer(params) {
    width_ = params.get<int>("width", 0);
    height_ = params.get<int>("height", 0);
    if (width_ <= 0 || height_ <= 0) ANYLAYER_THROW << "height=" << height_ << " and width=" << width_
                                                    << " must be positive: this layer takes no zoom_factor";
  }

  bool getMemoryShapes(const Shapes& inputs, const int, Shapes& outputs, Shapes&) const override {
    ANYLAYER_ASSERT(inputs.size() == 1 && inputs[0].size() == 4);
    outputs.assign(1, {inputs[0][0], inputs[0][1], height_, width_});
    return false;
  }

  // The columns are the same for every row: each output column lies between two input columns.
  void finalize(InputArrays inputs, OutputArrays) override {
    const int width = inputs[0].size[3];
    const float scale = width_ > 1 ? static_cast<float>(width - 1) / (width_ - 1) : 0.f;
    for (int x = 0; x < width_; ++x) {
      const float at = scale * x;
      const int left = static_cast<int>(at);
      columns_.push_back({left, left < width - 1 ? left + 1 : left, at - left});
    }
  }

  bool reentrant() const override { return true; }

  void forward(InputArrays inputs, OutputArrays outputs, OutputArrays) override {
    const int height = inputs[0].size[2], width = inputs[0].size[3];
    const int64_t planes = static_cast<int64_t>(inputs[0].size[0]) * inputs[0].size[1];
    const float* from = inputs[0].ptr<float>();
    float* to = outputs[0].ptr<float>();
    const float scale = height_ > 1 ? static_cast<float>(height - 1) / (height_ - 1) : 0.f;
    const int64_t rows = planes * height_;
    parallel_for(rows, 1 + (1 << 15) / width_, [&](int64_t begin, int64_t end) {
      for (int64_t row = begin; row < end; ++row) {
        const int y = static_cast<int>(row % height_);
        const float at = scale * y;
        const int top = static_cast<int>(at);
        const float low = at - top, high = 1.f - low;
        const float* above = from + ((row / height_) * height + top) * width;
        const float* below = top < height - 1 ? above + width : above;
        float* out = to + row * width_;
        for (int x = 0; x < width_; ++x) {
          const Column& c = columns_[x];
          out[x] = high * ((1.f - c.weight) * above[c.left] + c.weight * above[c.right]) +
                   low * ((1.f - c.weight) * below[c.left] + c.weight * below[c.right]);
        }
      }
    });
  }

 private:
  struct Column {
    int left, right;
    float weight;
  };
  int width_, height_;
  std::vector<Column> columns_;
};

}  // namespace

ANYLAYER_REGISTER_NAMED_LAYER("Interp", InterpLayer, "Bilinear interpolation; corners keep their places.")
