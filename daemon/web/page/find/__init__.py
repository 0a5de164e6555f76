"""Finding: the palette over every page, and the page of hits."""
