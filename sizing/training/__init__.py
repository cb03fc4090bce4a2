"""Does it run: what state and activations need of GPU memory, and how long the pipeline idles."""

from sizing.training.gpu_memory import GpuMemory, gpu_memory
from sizing.training.step_time import StepTime

__all__ = ["GpuMemory", "StepTime", "gpu_memory"]
