"""The daemon and its taps: everything that runs beside an agent. The docstring of each folder states its contents and
dependencies."""
