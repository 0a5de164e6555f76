"""The catalog of agents and their dialects: what a folder declares, the registry, recognition. Knows `core` by type."""
