"""The capture by `torch.export` and `torch.onnx.export(dynamo=True)`."""
