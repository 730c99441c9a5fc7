"""Finds the module calls where a graph parts from its reference, and the errors that single calls add.

The reference is the graph before a change, or the PyTorch model. Example: the weights of `layer.0` were quantized.

    graph                            reference     other          accumulated    added      output
    h = MatMul(x, w0)    layer.0     [1.0, 2.0]    [1.1, 2.0]     27 dB          27 dB      27 dB
    y = Relu(h)          layer.1     [1.0, 2.0]    [1.1, 2.0]     27 dB          equal      equal

Both values part, `h` first. Only `layer.0` adds an error: where `Relu` is given the reference's `h`, it gives the
reference's `y`. The steps, each in a module of its own:

1. `sides`: expand the functions and the taken branches of both graphs, and fit the inputs to them.
2. `boundaries`: list the values that leave the nodes of a call: `h`, `y`.
3. `against_graph`, `against_model`: pair each with a value of the reference (`pairs`), and measure how far the two lie
   apart (`gaps`): the accumulated error. The outputs are compared with those of the reference, too (`compared`).
4. `added`: run the nodes between these values on the values of the reference: the added error. Then add that error to
   the reference's value, and run the reference on: the error of the outputs.
5. `merging`: merge what was found on several inputs.

`comparing` is the function `diverge` that takes these steps, `results` what it returns; `text` and `page` render it.
"""
