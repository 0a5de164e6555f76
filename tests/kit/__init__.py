"""Tools of the project: reports on folders of recordings, and the page of coverage. `make` runs them."""
