"""Answers to questions asked again word for word: a link that many open, a page reloaded, a script that polls."""

from __future__ import annotations

from collections import OrderedDict

MAX_KEPT_BYTES = 8 * 1024 * 1024
"""Questions and answers of a process together: some 700 of the reference case."""
MAX_ONE_BYTES = 64 * 1024
"""Of one question with its answer. Larger ones hold lists of tensors, and would push out many others."""


class KeptAnswers:
    """The latest answers by the bytes of their questions. Only what depends on nothing else belongs here."""

    def __init__(self) -> None:
        self._answers: OrderedDict[bytes, bytes] = OrderedDict()
        self._num_bytes = 0

    def get(self, question: bytes) -> bytes | None:
        """The answer, if it is kept."""
        if question not in self._answers:
            return None
        self._answers.move_to_end(question)
        return self._answers[question]

    def keep(self, question: bytes, answer: bytes) -> None:
        """Keep an answer; those that nobody has asked for longest give way."""
        if question in self._answers or len(question) + len(answer) > MAX_ONE_BYTES:
            return
        self._answers[question] = answer
        self._num_bytes += len(question) + len(answer)
        while self._num_bytes > MAX_KEPT_BYTES:
            self._num_bytes -= sum(map(len, self._answers.popitem(last=False)))
