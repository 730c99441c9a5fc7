"""The MUST rules: numbered promises, each a function from an exported case to what breaks it.

No `must_*.py` imports torch or ONNX before its check runs, so that ids and promises can be read for free.
"""
