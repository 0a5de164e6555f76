"""The daemon and its taps: everything that runs beside an agent. Each folder says what it holds and what it knows."""
