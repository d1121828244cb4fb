"""Client, worker and test helpers of Jobhall.

>>> import jobhall
>>> client = jobhall.Client()  # doctest: +SKIP
>>> client.submit("add", a=2, b=3).result(timeout=20)  # doctest: +SKIP
5
"""

from . import errors, models
from ._codecs import codec
from ._query_text import query_text
from ._spec import JobSpec, spec
from ._streams import Event
from .aio import AsyncClient, AsyncGroup, AsyncJob, AsyncPromise
from .client import Client, Group, Job, Promise
from .errors import (
    ApiError,
    ConfigurationError,
    ConnectionFailed,
    GroupFailed,
    InvalidRequest,
    JobCancelled,
    JobCrashed,
    JobFailed,
    JobhallError,
    ParamsDiffer,
    PartlySubmitted,
    QueryError,
    QueryFailed,
    WaitTimeout,
)
from .models import Submitted
from .worker import Context, Worker

__all__ = [
    "ApiError",
    "AsyncClient",
    "AsyncGroup",
    "AsyncJob",
    "AsyncPromise",
    "Client",
    "ConfigurationError",
    "ConnectionFailed",
    "Context",
    "Event",
    "Group",
    "GroupFailed",
    "InvalidRequest",
    "Job",
    "JobCancelled",
    "JobCrashed",
    "JobFailed",
    "JobSpec",
    "JobhallError",
    "ParamsDiffer",
    "PartlySubmitted",
    "Promise",
    "QueryError",
    "QueryFailed",
    "Submitted",
    "WaitTimeout",
    "Worker",
    "codec",
    "errors",
    "models",
    "query_text",
    "spec",
]
