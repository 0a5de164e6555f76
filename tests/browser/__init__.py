"""The page in a browser: the system's Chromium, driven by Playwright, on daemons that are processes of their own."""
