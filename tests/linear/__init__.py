"""Time grows with the length of what is read, and no faster: `make linear` tries everything, the suite a sample."""
