"""Several places as one target: mount points, buckets, ways to the storage, over which the ranks of a node spread."""
