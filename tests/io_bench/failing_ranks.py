"""Ranks of which the second does not do its work."""

import os
import signal


def main(arguments: list[str]) -> None:
    """End as the argument says; the first rank would go on for ever."""
    (how,) = arguments
    if how == "pass":
        return
    if os.environ["RANK"] == "1":
        if how == "abort":
            os.abort()
        raise RuntimeError("no space")
    signal.pause()
