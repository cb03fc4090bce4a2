"""Does it run: what the training state needs of GPU memory."""

from sizing.training.gpu_memory import GpuMemory, gpu_memory

__all__ = ["GpuMemory", "gpu_memory"]
