"""The Caffe writer: a network as a V2 prototxt, a caffemodel, and the caffe.proto that reads both.

base.py    Caffe's own messages         dialects.py  what each fork reads
schema.py  which message means what     layers.py    CaffeNet: layers before they are text or bytes
text.py    CaffeNet -> prototxt         binary.py    CaffeNet -> caffemodel          proto.py  CaffeNet -> caffe.proto
network.py a network from Caffe -> CaffeNet
"""
