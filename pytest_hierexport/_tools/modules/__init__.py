"""Extracts the nodes of module calls from a graph, as a separate model or as ONNX functions."""
