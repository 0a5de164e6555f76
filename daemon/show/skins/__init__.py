"""The forms in which what is shown is written: HTML for pages, display lines for clients."""
