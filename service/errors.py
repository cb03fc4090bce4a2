"""Errors of the service, as part of the interface.

    InvalidInput                    (sizing) the question cannot be answered as asked
    ├── InvalidJson                 the body is not JSON, or not plain JSON
    ├── UnsupportedMediaType        the body is not declared to be JSON
    ├── BodyTooLarge                the body has more bytes than the service reads
    ├── HeadTooLarge                the request line and the headers have more bytes than the service reads
    ├── BodyTooSlow                 the body does not arrive in time
    ├── NotAuthenticated            no token, or none that holds
    ├── MissingScope                the token does not allow this
    ├── LoginFailed                 the provider or the browser brings no login that holds
    ├── LoginUnavailable            the provider of logins does not answer as it should
    ├── CrossOrigin                 the cookie of a login comes with a change that another site asks for
    ├── NotFound                    no such name, document or route
    ├── NotAcceptable               the client takes none of the forms that there are
    ├── Conflict                    the name or id already stands for something else
    ├── ChangedMeanwhile            what is to be changed is not any more as the client has seen it
    ├── NoPrecondition              the client does not say which state it has seen
    ├── TooManyRequests             the client asks more often than the service allows
    ├── TakesTooLong                the question needs more time or memory than the service gives to one
    │   ├── OutOfTime               it needs more time, so it may be asked as a job
    │   └── ProcessEnded            something outside ended the process that computed it
    ├── Busy                        too many heavy questions wait already
    ├── NotReady                    the database is not at this version's schema, or a part is missing
    └── CannotServe                 the service cannot start as asked: address, settings or database

Each is built as `InvalidInput.of(field, rule, value=..., remedy=...)`. `service.http.problems` has the one table
from these to HTTP.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError, ValidatorFunctionWrapHandler, WrapValidator

from sizing.errors import InvalidInput, explain
from sizing.printed_numbers import with_plain_numbers

MAX_PROBLEMS = 100
"""Named one by one; a list of a million wrong values would make an answer larger than the question."""

_Result = TypeVar("_Result")


class InvalidJson(InvalidInput):
    """The body is not JSON, or not plain JSON."""


class UnsupportedMediaType(InvalidInput):
    """The body is not declared to be JSON."""


class BodyTooLarge(InvalidInput):
    """The body has more bytes than the service reads."""


class HeadTooLarge(InvalidInput):
    """The request line and the headers have more bytes than the service reads."""


class BodyTooSlow(InvalidInput):
    """The body does not arrive in time."""


class NotAuthenticated(InvalidInput):
    """No token, or none that holds."""


class MissingScope(InvalidInput):
    """The token does not allow this."""


class LoginFailed(InvalidInput):
    """The provider or the browser brings no login that holds."""


class LoginUnavailable(InvalidInput):
    """The provider of logins does not answer as it should."""


class CrossOrigin(InvalidInput):
    """The cookie of a login comes with a change that another site asks for."""


class NotFound(InvalidInput):
    """No such name, document or route."""


class NotAcceptable(InvalidInput):
    """The client takes none of the forms that there are."""


class Conflict(InvalidInput):
    """The name or id already stands for something else."""


class ChangedMeanwhile(InvalidInput):
    """What is to be changed is not any more as the client has seen it."""


class NoPrecondition(InvalidInput):
    """The client does not say which state it has seen of what it changes."""


class TooManyRequests(InvalidInput):
    """The client asks more often than the service allows."""


class TakesTooLong(InvalidInput):
    """The question needs more time or memory than the service gives to one."""


class OutOfTime(TakesTooLong):
    """The question needs more time than the service gives to one that is waited for."""


class ProcessEnded(TakesTooLong):
    """A signal ended the process that computed the question, as the kernel does where memory runs out."""


class Busy(InvalidInput):
    """Too many heavy questions wait already."""


class NotReady(InvalidInput):
    """The database is not at the schema of this version, or a part of the system is missing."""


class CannotServe(InvalidInput):
    """The service cannot start as asked: address, settings or database."""


class ClientGone(Exception):
    """Raised where the client has closed the connection, so that nobody waits for an answer."""


def busy() -> InvalidInput:
    """Return the error of a busy service."""
    return Busy.of("the service", "is busy with other questions", value=None, remedy="try again later")


def stopping() -> InvalidInput:
    """Return the error of a service that stops before it has the answer."""
    return Busy.of("the service", "is stopping", value=None, remedy="try again when it has started again")


def explained(model: type[BaseModel]) -> WrapValidator:
    """Make a validator for the annotation of a `model`: it reads numbers and explains rules as a command does."""

    def validate(value: Any, handler: ValidatorFunctionWrapHandler) -> Any:
        def as_printed() -> Any:
            try:
                return handler(value)
            except ValidationError as error:
                plain = with_plain_numbers(value, error) if error.error_count() <= MAX_PROBLEMS else None
                if plain is None:
                    raise
            return handler(plain)

        return validated(model, as_printed)

    return WrapValidator(validate)


def validated(model: type[BaseModel], validate: Callable[[], _Result]) -> _Result:
    """Return what `validate` returns, and explain the rules that it finds broken.

    Raises InvalidInput where it finds that a field of `model` breaks a rule. Beyond MAX_PROBLEMS it counts
    instead of explaining, for a suggestion costs more than the mistake.
    """
    try:
        return validate()
    except ValidationError as error:
        if error.error_count() > MAX_PROBLEMS:
            rule = f"breaks {error.error_count():,} rules, too many to list"
            raise InvalidInput.of("", rule, value=None, remedy="check the structure of the document") from None
        raise explain(error, model) from None
