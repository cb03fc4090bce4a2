"""Does it run: what state and activations need of GPU memory, and how long the pipeline idles."""

from sizing.training.memory.gpu_memory import GpuMemory, gpu_memory

__all__ = ["GpuMemory", "gpu_memory"]
