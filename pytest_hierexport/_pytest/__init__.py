"""Takes part in pytest: a class per model, a test per rule, a snapshot test, and the run that they share."""
