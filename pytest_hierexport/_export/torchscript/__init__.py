"""The capture by `torch.onnx.export(dynamo=False)`: torch traces the model and converts the trace."""
