"""What lies in host memory or on NVMe drives instead of on the GPU, and whether the link hides its copies."""
