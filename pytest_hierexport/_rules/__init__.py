"""The MUST rules: numbered promises, each a function from an exported case to what breaks it.

No module here imports torch or ONNX before a rule runs, so that ids and promises can be read for free.
"""
