"""Home: the table of sessions, with filters that live in the address, which is kept up to date while it is open."""
