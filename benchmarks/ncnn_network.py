"""placeholder"""
class Missing(Exception): pass
def write(net, shapes, outputs, folder): raise Missing("not written yet")
