"""`python -m sluice.services.api.explain_worker`: a question on stdin, its answer on stdout."""

import logging
import os
import sys

import msgspec
import structlog

from sluice.protocol.query import WhyAnswer
from sluice.readmodel.scope import hidden
from sluice.replay.explain.others import others_at
from sluice.replay.explain.why import explain
from sluice.replay.explain.why_text import plain_words
from sluice.replay.source.errors import UnknownWorkloadError
from sluice.replay.source.time_travel import scheduler_at
from sluice.retention.live import log_source

from .config import load


class Question(msgspec.Struct, frozen=True):
    """*foreign*: namespaces of which nothing is told; None: all is."""

    namespace: str
    name: str
    foreign: list[str] | None = None


class Answer(msgspec.Struct, frozen=True):
    """None: there is no such workload."""

    found: WhyAnswer | None = None


def answer(question: Question) -> Answer:
    config = load(os.environ, os.getpid())
    source = log_source(config.nats_url, config.cell)
    seq = source.end
    fold = scheduler_at(source, seq)
    name = f"{question.namespace}/{question.name}"
    try:
        others = others_at(source, seq, fold, name)
        report = explain(fold.state, name, seq, fold.at, others=others)
    except UnknownWorkloadError:
        return Answer()
    text, plain = list(plain_words(report)), msgspec.to_builtins(report.plain())
    if question.foreign is not None:
        text, plain = hidden((text, plain), frozenset(question.foreign))
    return Answer(WhyAnswer(seq=seq, text=text, report=plain))


if __name__ == "__main__":
    # What it says goes to the service, which logs it when this fails.
    structlog.configure(
        wrapper_class=structlog.make_filtering_bound_logger(logging.ERROR),
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
    )
    asked = msgspec.json.decode(sys.stdin.buffer.read(), type=Question)
    sys.stdout.buffer.write(msgspec.json.encode(answer(asked)))
