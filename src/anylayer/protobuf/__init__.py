"""Protobuf's formats, read and written by schemas that are data. Every length that a file claims is checked.

tree.py        Block: the fields of one message as the file spells them
text.py        the text format
binary.py      the binary format, read from a memory map
proto_file.py  parses a .proto; caffe.proto declares Caffe's own messages
schema.py      the messages of a .proto, by which fields are checked and typed
"""
