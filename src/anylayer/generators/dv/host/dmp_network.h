// The classes and functions that the generated network uses, for a PC: every layer is computed on the CPU.
//
// On the board, the header of the same name of DMP's application repository takes the place of this one. Names and
// fields are those of DMP's headers; the code is not.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#ifdef DMP_TWO_ARGUMENTS
#define DMP_CALLBACK(name) void name(fpga_layer& layer, void* custom_param)
#else
#define DMP_CALLBACK(name) void name(fpga_layer& layer, void* custom_param, uint8_t* io_ptr)
#endif

struct dmp_dv_mem;

struct dmp_dv_buf {
  dmp_dv_mem* mem;
  uint64_t offs;
};

struct dmp_dv_cmdraw {
  uint32_t size;
  uint8_t device_type;
  uint8_t version;
};

enum { DMP_DV_DEV_CONV = 1, DMP_DV_DEV_FC = 2 };

struct dmp_dv_cmdraw_conv_v0_run {
  dmp_dv_buf weight_buf;
  uint32_t conv_pad, pool_pad;
  uint16_t m, conv_enable, p, pz, conv_stride, conv_dilation, weight_fmt;
  uint16_t pool_enable, pool_avg_param, pool_size, pool_stride;
  uint16_t actfunc, actfunc_param, rectifi_en, lrn;
};

struct dmp_dv_cmdraw_conv_v0 {
  dmp_dv_cmdraw header;
  dmp_dv_buf input_buf, output_buf, eltwise_buf;
  uint32_t topo;
  uint16_t w, h, z, c, input_circular_offset, output_mode;
  dmp_dv_cmdraw_conv_v0_run run[32];
};

struct dmp_dv_cmdraw_fc_v0 {
  dmp_dv_cmdraw header;
  dmp_dv_buf weight_buf, input_buf, output_buf;
  uint16_t input_size, output_size, weight_fmt, actfunc, actfunc_param;
};

enum layer_type { LT_INPUT, LT_CONV, LT_FC, LT_FLATTEN, LT_CONCAT, LT_COPY_CONCAT, LT_SOFTMAX, LT_CUSTOM };

struct fpga_layer;

#ifdef DMP_TWO_ARGUMENTS
typedef void (*run_custom_callback_proc)(fpga_layer& layer, void* custom_param);
#else
typedef void (*run_custom_callback_proc)(fpga_layer& layer, void* custom_param, uint8_t* io_ptr);
#endif

struct fpga_layer {
  layer_type type;
  std::string name;
  dmp_dv_cmdraw_conv_v0 conv_conf;
  dmp_dv_cmdraw_fc_v0 fc_conf;
  int softmax_axis;
  int input_layer_num;
  fpga_layer** input_layers;
  run_custom_callback_proc custom_proc_ptr;
  void* custom_param;
  size_t input_offs, output_offs, output_size;  // bytes
  int input_dim[3], input_dim_size, output_dim[3], output_dim_size;  // (W, H, C)
  bool is_output, is_f32_output, is_input_hw_layout;
};

class CDMP_Network {
 public:
  virtual ~CDMP_Network() {}
  virtual bool Initialize() = 0;
  bool LoadWeights(const std::string& filename);  // false unless the file has exactly the size of the weights
  bool RunNetwork();
  void* get_network_input_addr_cpu();
  void get_final_output(std::vector<float>& output, int i_output = 0);
  fpga_layer& get_layer(int i) { return layers_[i]; }
  int get_total_layer_count() const { return static_cast<int>(layers_.size()); }
  int get_output_layer_count() const { return static_cast<int>(output_layers_.size()); }
  uint8_t* get_io_ptr() const { return io_ptr_; }

 protected:
  bool ReserveMemory(size_t weights_size, size_t io_size);
  void set_num_layers(int n) { layers_.assign(n, fpga_layer()); }
  void set_num_output_layers(int n) { output_layers_.assign(n, nullptr); }

  std::vector<fpga_layer> layers_;
  std::vector<fpga_layer*> output_layers_;
  dmp_dv_mem* weights_mem_ = nullptr;
  dmp_dv_mem* io_mem_ = nullptr;
  uint8_t* io_ptr_ = nullptr;

 private:
  void run_conv(const fpga_layer& layer);
  void run_fc(const fpga_layer& layer);
  void run_copy_concat(const fpga_layer& layer);
  void run_softmax(const fpga_layer& layer);

  std::vector<uint8_t> weights_, io_;
};

float half_to_float(uint16_t half);
uint16_t float_to_half(float value);

// The offset of an element in a buffer of the hardware: groups of 8 channels, in a group x, then y, then channels.
size_t hw_offset(int x, int y, int c, int w, int h, int channels);

#ifdef DMP_TWO_ARGUMENTS
void get_layer_input(fpga_layer& layer, std::vector<float>& layer_input);
void put_layer_output(fpga_layer& layer, std::vector<float>& layer_output, bool is_output_hw_layout = false);
uint8_t* current_io_ptr();
#else
void get_layer_input(fpga_layer& layer, std::vector<float>& layer_input, uint8_t* io_ptr);
void put_layer_output(fpga_layer& layer, std::vector<float>& layer_output, uint8_t* io_ptr,
                      bool is_output_hw_layout = false);
#endif
