"""What lines cost to normalize: recordings and generated lines, and how they are measured."""
