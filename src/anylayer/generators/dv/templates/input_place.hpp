// Where an input of a layer with several inputs lies.
struct input_place
{
  size_t offs;
  int dim[3];
  int dim_size;
  bool is_f32;
  bool is_hw_layout;
};
