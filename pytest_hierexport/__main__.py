"""Runs the command line: `python -m pytest_hierexport`."""

from __future__ import annotations

import sys

from pytest_hierexport.cli import main

sys.exit(main())
