"""Each rare request is one that its question takes."""

from sizing.questions.registry import QUESTIONS
from tests.sizing.laws.rare_requests import rare_requests


def test_each_rare_request_is_one_that_its_question_takes() -> None:
    names = [name for name, request in rare_requests() if QUESTIONS[name].question.parse_request(request)]
    assert set(names) == {"decide", "cluster", "layouts"}
