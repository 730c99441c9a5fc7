"""Compares two tagged ONNX files (`hierexport diff`): by module, then by node, initializer and interface.

1. `modules`: pair the module instances of both hierarchies, by path, then by content.
2. `graphs`: flatten both graphs, subgraphs and functions included, into nodes and values.
3. `numbering`, `pairing`: pair their nodes: by value numbering, then by their neighbours, then by name.
4. `contents`: compare the paired initializers and the attributes of paired nodes.
5. `interface`: compare the declared inputs, outputs and operator sets.
6. `comparison`: collect the differences; `texts` words them.
7. `rendering`: write them as text, Markdown or JSON; `folding` makes equal ones one line.
"""
