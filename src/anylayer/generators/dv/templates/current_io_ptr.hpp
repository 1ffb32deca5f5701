// The base of the buffers of the network that runs. The application provides it.
uint8_t *current_io_ptr();
