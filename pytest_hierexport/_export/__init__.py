"""Exports any `nn.Module` to a tagged graph: capture, carry, attach. Importing this package imports no torch."""
