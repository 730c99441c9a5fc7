"""ONNX graphs and files: node keys, operators, tags in the file, the sidecar; knows no torch."""
