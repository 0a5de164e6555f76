"""The daemon's log, to stderr: coloured lines on a terminal, otherwise one JSON object per line.

A message is a constant text; variable parts go into fields.
"""

from __future__ import annotations

import logging
import sys

from tooltap.daemon.system.without import without

with without("rich"):  # structlog would import it for tracebacks, which are rendered plainly: a fifth of the startup
    import structlog
    from structlog.tracebacks import ExceptionDictTransformer
    from structlog.typing import FilteringBoundLogger, Processor

__all__ = ["Logger", "configure", "get_logger"]

Logger = FilteringBoundLogger


def configure(level: str = "info") -> None:
    """`level`: debug, info, warning or error."""
    shared: list[Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
    ]
    # No local variables in tracebacks: they hold what agents printed.
    rendering: list[Processor] = (
        [structlog.dev.ConsoleRenderer(exception_formatter=structlog.dev.plain_traceback)]
        if sys.stderr.isatty()
        else [
            structlog.processors.ExceptionRenderer(ExceptionDictTransformer(show_locals=False)),
            structlog.processors.JSONRenderer(),
        ]
    )
    structlog.configure(
        processors=shared + rendering,
        wrapper_class=structlog.make_filtering_bound_logger(logging.getLevelNamesMapping()[level.upper()]),
        logger_factory=structlog.WriteLoggerFactory(file=sys.stderr),
    )


def get_logger(area: str) -> Logger:
    logger: Logger = structlog.get_logger(area=area)
    return logger
