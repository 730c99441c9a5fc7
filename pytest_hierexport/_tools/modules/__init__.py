"""Takes the nodes of module calls out of a graph: as a model of their own, or as ONNX functions."""
