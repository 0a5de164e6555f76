"""One folder for each family of dialects: how it is recognised, its parsers, its agents. Knows `catalog` and below."""
