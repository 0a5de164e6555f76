"""The output formats of what is shown: HTML for pages, Markdown for files, display lines for clients."""
