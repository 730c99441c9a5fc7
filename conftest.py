"""This repository's own pytest set-up."""

from __future__ import annotations

import os

pytest_plugins = ["pytester"]

# The models under test are tiny: more threads than workers only slow each other down. Set before anything imports
# torch or ONNX Runtime, and inherited by the processes that tests start.
os.environ.setdefault("OMP_NUM_THREADS", "1")
