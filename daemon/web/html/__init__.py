"""Foreign text as inert HTML: Markdown, source code, diffs, terminal output. It knows neither tools nor HTTP."""
