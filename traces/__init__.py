"""Raw lines on disk: the JSONL trace writer and reader, and checks of the normalizers over recorded streams."""
