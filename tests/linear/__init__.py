"""Time grows with the length of what is read, and no faster: `make lab-linear` tries everything, the suite a sample."""
