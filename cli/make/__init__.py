"""Programs of `make` that report on recordings. Knows `common`."""
