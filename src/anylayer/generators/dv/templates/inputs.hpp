namespace {

input_place place_of_input(const fpga_layer& layer, bool is_f32) {
  input_place place = { layer.input_offs, {}, layer.input_dim_size, is_f32, layer.is_input_hw_layout };
  std::copy(layer.input_dim, layer.input_dim + 3, place.dim);
  return place;
}

// The values of an input; those of a map are in the order (H, W, C). get_layer_input reads 16-bit floats only.
std::vector<float> read_input(const input_place& place, uint8_t *io_ptr) {
  fpga_layer from = fpga_layer();
  from.input_offs = place.offs;
  std::copy(place.dim, place.dim + 3, from.input_dim);
  from.input_dim_size = place.dim_size;
  from.is_input_hw_layout = place.is_hw_layout;
  std::vector<float> values;
  if (!place.is_f32) {
    get_layer_input(INSERT_arguments);
    return values;
  }
  size_t count = 1;
  for (int i = 0; i < place.dim_size; ++i) count *= place.dim[i];
  const float *data = reinterpret_cast<const float*>(io_ptr + place.offs);
  return std::vector<float>(data, data + count);
}

// A matrix of `rows` x `columns`, transposed: (H, W, C) becomes (C, H, W) with rows = H * W, and back.
std::vector<float> to_planes(const std::vector<float>& values, size_t rows, size_t columns) {
  std::vector<float> found(values.size());
  for (size_t i = 0; i < rows; ++i)
    for (size_t j = 0; j < columns; ++j) found[j * rows + i] = values[i * columns + j];
  return found;
}

}  // namespace
