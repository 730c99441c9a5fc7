"""Handles files of any kind: digests, atomic writes, temporary folders, ownership. Knows nothing of models."""
