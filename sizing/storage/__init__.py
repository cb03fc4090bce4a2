"""How long I/O takes: storage profiles, measurements of real storage, the transfer model."""
