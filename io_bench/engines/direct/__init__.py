"""`direct`: a plain torch file per rank, past the page cache, in large aligned blocks by several threads.

layout      where torch.save would put every byte of the file
blocks      the file cut into requests, and what each is made of
requests    whole reads and writes, and space taken before
files       the file that blocks go to: past the page cache, through it, or a stream
threads     one buffer per thread, blocks as they come
engine      the engine that uses them
"""
