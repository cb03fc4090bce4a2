"""`direct`: a plain torch file per rank, past the page cache, in large aligned blocks by several threads.

layout      where torch.save would put every byte of the file
blocks      the file cut into requests, and what each is made of
memory      buffers that O_DIRECT takes
files       preallocation, whole writes, whole reads
threads     one buffer per thread, blocks as they come
engine      the engine that uses them
"""
