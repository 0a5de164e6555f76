"""Catalog of agents and their dialects: declarations of the folders in `dialects/`, their registry, and recognition.
Depends on `core` for types only."""
