"""Describes calls, tags, names, the module tree and the attribution. Knows neither torch nor ONNX."""
