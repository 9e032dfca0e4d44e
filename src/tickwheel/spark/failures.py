"""Why Spark failed, in one line: the one that says it, out of the stack traces of two languages."""
from __future__ import annotations

import re

_OF_PYTHON = re.compile(
    r"(?m)^(?!org\.|java|scala\.|py4j\.)(?:(?:\w+\.)*\w*(?:Error|Exception|MissingExtra): (.+)|MemoryError)$"
)
_OF_JAVA = re.compile(
    r"(?m)^(?:: |Caused by: |Exception in thread \"main\" )?"
    r"(?:org|java|scala)[\w.$]+(?:Error|Exception): (.+)$"
)
_CODES = re.compile(r"^\[[A-Z0-9_.]+\] | *SQLSTATE: \w+")


def why(text: str) -> str:
    """What the last Python error in `text` says; else the causes in Java, the outermost first, each once.

    `text` is that of an exception of pyspark or py4j, or what the JVM wrote to stderr.
    """
    of_python = _OF_PYTHON.findall(text)
    if of_python:
        return of_python[-1] or "out of memory"
    causes = dict.fromkeys(_CODES.sub("", cause).strip() for cause in _OF_JAVA.findall(text))
    return ": ".join(causes) or _CODES.sub("", text.strip().partition("\n")[0])
