"""Raw lines on disk: the JSONL trace writer and reader, fixtures made of traces, and checks over recorded streams."""
