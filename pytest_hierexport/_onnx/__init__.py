"""Lists, tags, writes and reads ONNX graphs and files: node keys, operators, tags, the sidecar. Knows no torch."""
