"""The messages of caffe.proto: see caffe_pb2."""

from anylayer.caffe.proto import caffe_pb2

__all__ = ["caffe_pb2"]
