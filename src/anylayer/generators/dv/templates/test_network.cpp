// Runs the network on a PC, and compares its outputs with those of the network's layers in NumPy. There, weights
// and the arrays between the layers are 16-bit floats where the hardware has them.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <fstream>

#include "INSERT_header"

struct result { int layer, first, count; };  // an output of the network in one of a layer
struct input { size_t offset, size; };       // an input of the network, in bytes

int main() {
  const result results[INSERT_count] = {INSERT_rows};
  const input inputs[INSERT_input_count] = {INSERT_inputs};
  INSERT_network network;
  if (!network.Initialize() || !network.LoadWeights("INSERT_weights")) {
    std::puts("INSERT_weights has another size than the network's weights");
    return 1;
  }
  std::ifstream data("test_data.bin", std::ios::binary);
  bool good = true;
  for (int sample = 0; sample < INSERT_samples; ++sample) {
    for (const input& i : inputs)
      data.read(static_cast<char*>(network.get_network_input_addr_cpu()) + i.offset, i.size);
    if (!network.RunNetwork()) return 1;
    for (const result& r : results) {
      std::vector<float> got, want(r.count);
      network.get_final_output(got, r.layer);
      data.read(reinterpret_cast<char*>(want.data()), want.size() * 4);
      double error = 0, scale = 6.1e-5;  // the smallest 16-bit float with all of its digits
      for (int i = 0; i < r.count; ++i) {
        const double difference = std::fabs(double(got[r.first + i]) - want[i]);
        error = difference <= error ? error : difference;  // also where it is not a number
        scale = std::max(scale, std::fabs(double(want[i])));
      }
      const bool near = error <= INSERT_tolerance * scale && bool(data);
      const char* verdict = near ? "" : ", above the tolerance";
      std::printf("output %d: largest difference %.3g, largest value %.3g%s\n", int(&r - results), error, scale,
                  verdict);
      good = good && near;
    }
  }
  return good ? 0 : 1;
}
