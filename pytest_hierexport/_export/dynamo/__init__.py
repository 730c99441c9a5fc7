"""The capture by `torch.export` and `torch.onnx.export(dynamo=True)`.

In goes a request; out comes a capture, by `capturer.capture`. How a node of the graph gets its call:

1. `capturer.Recording` replaces functions of torch while the export runs; `shortcuts` skips needless work of torch.
2. While `torch.export` runs the model, torch keeps the module stack on each fx node. `module_stacks` completes it, and
   tells `stack_calls` which stack stands for which call; `paths` reads the entries of a stack.
3. Before torch drops a node, `dropped` writes its stack to a kept node with an equal value (`trial_run`). `views` gives
   a view that torch computes once more to the call that first took it.
4. torch builds each ONNX node for one fx node. `capturer` copies the ONNX graph before it is optimized, once more after
   `inlining`, with the stacks of each node (`node_stacks`). `stack_calls.StackCalls.owners_of` gives their calls.
"""
