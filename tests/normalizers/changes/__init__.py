"""What calls did to files: the cumulative diffs are those of git."""
