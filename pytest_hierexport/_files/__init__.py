"""Files of any kind: digests, one atomic write, and which files are ours; knows nothing of models."""
