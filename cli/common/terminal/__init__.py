"""The terminal of the user: its width, a pager, the whole screen, and the browser beside it."""
