"""Filters torch's trace of a capture out of the logs that pytest shows."""

from __future__ import annotations

import logging
from functools import partial
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pytest

_TRACE = "torch.__trace"


def quiet_torch_trace(config: pytest.Config) -> None:
    """Drop records of torch's trace below the level of pytest's handler, or of the root logger where it has none.

    torch logs its trace at DEBUG, whatever levels are set. A test that asks for DEBUG, by `log_level`,
    `caplog.set_level` or on the root logger, still gets the lines; the file of `TORCH_TRACE` always does.
    """
    plugin = config.pluginmanager.get_plugin("logging-plugin")
    for handler in vars(plugin).values() if plugin else ():
        if isinstance(handler, logging.Handler):
            handler.addFilter(partial(_is_wanted, handler))


def _is_wanted(handler: logging.Handler, record: logging.LogRecord) -> bool:
    return record.name != _TRACE or record.levelno >= (handler.level or logging.getLogger().level)
