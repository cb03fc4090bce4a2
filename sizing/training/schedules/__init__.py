"""Pipeline schedules: how many microbatches a stage holds at once, and how long it idles."""
