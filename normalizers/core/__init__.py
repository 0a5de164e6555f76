"""What every dialect is written with: parser, emitter, calls, texts, permissions, answers. Knows no dialect."""
