"""Exports any `nn.Module` to a tagged graph: capture, carry, attach. Importing this package imports no torch.

In go a model, its inputs and options; out comes an `Export` (`result`), by `pipeline.export`. The steps:

1. `choices`, `dynamic_shapes`: check the options. `state`, `unshared`: leave the model as it was.
2. `captures.capture_with` lets `dynamo`, `transformers` or `torchscript` capture the model, each a function from a
   `Request` to a `Capture` (`capture`): the calls, the graph before optimization with the calls of its nodes, and the
   graph after. `recorder` names the calls for all of them, by the paths of `modules`.
3. `traced.attribute_before` makes the calls origins of the graph before; `_carry.carry_flat` carries these to the graph
   after, and `_onnx.storage.attach` writes them into it.

Where a capture fails, `faults` and `model_failure` tell whose error it is.
"""
