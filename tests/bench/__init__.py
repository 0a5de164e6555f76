"""What tooltap costs: `make bench`. Each `row_*.py` measures one promise and says what is to be reached."""
