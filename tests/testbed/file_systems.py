"""File systems to fill, to break and to slow down: on loop devices, and in memory."""

from __future__ import annotations

import os
import subprocess
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.testbed.processes import Unavailable, done, need, need_root, until

_BLKIO = Path("/sys/fs/cgroup/blkio")


@dataclass(frozen=True, slots=True)
class Disk:
    """An ext4 file system on a loop device of its own."""

    path: Path
    device: Path

    def remount(self, options: str) -> None:
        """Change the options of the mount: "ro", say."""
        done(["mount", "-o", f"remount,{options}", self.path])

    def unmount_lazily(self) -> None:
        """Take the file system from its path; what is open there stays so."""
        done(["umount", "--lazy", self.path])

    def mount(self) -> None:
        """Bring it back to its path."""
        done(["mount", "-t", "ext4", self.device, self.path])

    @property
    def written_bytes(self) -> int:
        """What was written to the device since it is there."""
        sectors = Path(f"/sys/block/{self.device.name}/stat").read_text().split()[6]
        return int(sectors) * 512

    def hang(self, seconds: float) -> threading.Timer:
        """Let every write wait for so long, from now on; the timer that ends it."""
        done(["fsfreeze", "--freeze", self.path])
        timer = threading.Timer(seconds, done, [["fsfreeze", "--unfreeze", self.path]])
        timer.start()
        return timer

    def set_births(self, births: Mapping[Path, float]) -> None:
        """Write the birth time of files, in seconds since 1970, into their inodes, as no system call can."""
        need("debugfs")
        script = "".join(
            f"set_inode_field /{path.relative_to(self.path)} crtime @{int(born)}\n" for path, born in births.items()
        )
        done(["umount", self.path])
        try:
            subprocess.run(
                ["debugfs", "-w", "-f", "-", self.device], input=script, check=True, capture_output=True, text=True
            )
        finally:
            self.mount()


@contextmanager
def disk(directory: Path, *, num_bytes: int) -> Iterator[Disk]:
    """A disk of `num_bytes`, mounted inside `directory`. Direct I/O must be aligned on it, as on real ones.

    Raises Unavailable where loop devices cannot be mounted.
    """
    need_root()
    need("mkfs.ext4", "losetup", "mount", "umount", "fsfreeze")
    image, path = directory / "disk.img", directory / "disk"
    image.touch()
    os.truncate(image, num_bytes)
    done(["mkfs.ext4", "-q", "-m", "0", image])
    device = Path(_loop_device(image))
    try:
        with _mounted(path, "-t", "ext4", device):
            yield Disk(path, device)
    finally:
        done(["losetup", "--detach", device])
        image.unlink()


@contextmanager
def memory_disk(directory: Path, *, num_bytes: int) -> Iterator[Path]:
    """A tmpfs of `num_bytes`, mounted inside `directory`. Raises Unavailable where that cannot be."""
    need_root()
    with _mounted(directory / "memory", "-t", "tmpfs", "-o", f"size={num_bytes}", "tmpfs"):
        yield directory / "memory"


@contextmanager
def seen_again(directory: Path, *, at: Path) -> Iterator[Path]:
    """A directory, mounted once more elsewhere: two ways to the same storage."""
    need_root()
    with _mounted(at, "--bind", directory):
        yield at


@contextmanager
def buffered_disk(directory: Path) -> Iterator[Path]:
    """A ramfs inside `directory`: it refuses O_DIRECT once it has made the file, and cannot allocate.

    Raises Unavailable where that cannot be.
    """
    need_root()
    with _mounted(directory / "buffered", "-t", "ramfs", "ramfs"):
        yield directory / "buffered"


@dataclass(frozen=True, slots=True)
class Throttle:
    """A limit on the direct I/O of processes to a disk. What goes through the page cache is not limited."""

    group: Path
    device_number: str

    def limit_writes(self, bytes_per_second: int) -> None:
        """From now on to this rate."""
        (self.group / "blkio.throttle.write_bps_device").write_text(f"{self.device_number} {bytes_per_second}")

    def command(self, *command: str | Path) -> list[str]:
        """The command line that runs `command`, and all that it starts, under the limit."""
        return ["sh", "-c", 'echo $$ > "$0" && exec "$@"', str(self.group / "cgroup.procs"), *map(str, command)]


@contextmanager
def throttled(
    disk: Disk, *, write_bytes_per_second: int | None = None, read_bytes_per_second: int | None = None
) -> Iterator[Throttle]:
    """An exact limit on what processes write to a disk and read from it, by a control group of version 1.

    Raises Unavailable where this machine has no such groups.
    """
    if not (_BLKIO / "blkio.throttle.write_bps_device").exists():
        raise Unavailable("the block I/O control group of version 1 is not there")
    group = _BLKIO / f"ckpt-bench-{disk.device.name}-{os.getpid()}"
    group.mkdir()
    try:
        number = Path(f"/sys/block/{disk.device.name}/dev").read_text().strip()
        for operation, rate in (("write", write_bytes_per_second), ("read", read_bytes_per_second)):
            if rate is not None:
                (group / f"blkio.throttle.{operation}_bps_device").write_text(f"{number} {rate}")
        yield Throttle(group, number)
    finally:
        until(lambda: not (group / "cgroup.procs").read_text())
        group.rmdir()


@contextmanager
def slow_device(disk: Disk, *, bytes_per_second: int) -> Iterator[None]:
    """A limit on all reads and all writes of a disk, those of the page cache too, whoever asks for them.

    The kernel's own writing belongs to no other group than the first. Raises Unavailable where this machine has no
    control groups of version 1.
    """
    limits = [_BLKIO / f"blkio.throttle.{operation}_bps_device" for operation in ("read", "write")]
    if not all(limit.exists() for limit in limits):
        raise Unavailable("the block I/O control group of version 1 is not there")
    number = Path(f"/sys/block/{disk.device.name}/dev").read_text().strip()
    for limit in limits:
        limit.write_text(f"{number} {bytes_per_second}")
    try:
        yield
    finally:
        for limit in limits:
            limit.write_text(f"{number} 0")


@contextmanager
def _mounted(path: Path, *arguments: str | Path) -> Iterator[None]:
    path.mkdir()
    try:
        done(["mount", *arguments, path])
    except RuntimeError as error:
        path.rmdir()
        raise Unavailable(f"cannot be mounted here: {error}") from error
    try:
        yield
    finally:
        done(["umount", path])
        path.rmdir()


def _loop_device(image: Path) -> str:
    found = subprocess.run(["losetup", "--find", "--show", image], capture_output=True, text=True, check=False)
    if found.returncode != 0:
        image.unlink()
        raise Unavailable(f"loop devices cannot be made here: {found.stderr.strip()}")
    return found.stdout.strip()
