"""What a save and a restore ask of any storage: bytes, streams and files, into the same layout or another."""
