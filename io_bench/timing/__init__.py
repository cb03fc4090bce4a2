"""What is seen of every request to the storage while the clock runs: how long it took, when, and where in which file.

latency         a histogram of seconds, which adds up over ranks
timeline        bytes over time, in a bounded number of bins
request_log     what one rank's write or restore leaves of both, and the slowest request of each phase
observed_file   a file that tells the log of its requests
"""
