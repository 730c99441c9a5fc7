"""The capture by `torch.onnx.export(dynamo=False)`: torch traces the model and converts the trace.

In goes a request; out comes a capture, by `capturer.capture`. How a node of the graph gets its call:

1. `adapter` wraps the model in one that takes and gives tensors alone; `dynamic_axes` names the dynamic axes of these.
2. While torch traces the model, `trace` marks in the trace where each call begins and ends. torch merges nodes of the
   trace: `survey` finds which.
3. While torch converts the trace, `calls` gives each new ONNX node the calls of the traced one. `graph` copies torch's
   graph, right after the conversion and as it is written.
4. `before` builds the graph before optimization from both copies.

`parts` runs all this again where torch cannot convert an operator.
"""
