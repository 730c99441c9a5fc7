"""Shows the content of a tagged ONNX file: figures by module, and the origins of each node."""
