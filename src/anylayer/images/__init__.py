"""Images: their files, OpenCV's resize, and the preprocessing that makes an input of a network of them."""
