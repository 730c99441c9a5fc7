"""Calls, tags, names, the module tree and the attribution; knows neither torch nor ONNX."""
