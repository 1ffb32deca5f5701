struct prior_box_t {
  float x0, y0, x1, y1;
  float xv, yv, wv, hv;
};

template <class T>
std::vector<float> listed(const T& number) { return std::vector<float>(1, float(number)); }
template <class T, size_t N>
std::vector<float> listed(const T (&numbers)[N]) { return std::vector<float>(numbers, numbers + N); }

inline float box_clip(float x) { return x < 0.f ? 0.f : x > 1.f ? 1.f : x; }
