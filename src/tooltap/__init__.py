"""One normalized event stream from every coding agent."""

__version__ = "0.1.0"
