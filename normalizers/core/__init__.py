"""Building blocks of every dialect: parser, writer, calls, texts, permissions, answers. Knows no dialect."""
