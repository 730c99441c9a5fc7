"""The MUST rules: numbered promises, each with a module whose `check` yields what breaks it in an exported case."""
