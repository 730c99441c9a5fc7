"""Finds the calls where two graphs, or a graph and its model, part."""
