"""Spark's failures as one line: texts as pyspark and the JVM gave them."""
import pytest

from tickwheel.spark.failures import why

IN_A_WORKER = """An error occurred while calling o45.parquet.
: org.apache.spark.SparkException: [TASK_WRITE_FAILED] Task failed while writing rows. SQLSTATE: 58030
\tat org.apache.spark.sql.errors.QueryExecutionErrors$.taskFailed(QueryExecutionErrors.scala:787)
Caused by: org.apache.spark.api.python.PythonException: Traceback (most recent call last):
  File "worker.py", line 3360, in main
    process()
tickwheel.trace.TraceError: part-1.parquet, row 3: arrival_ms must not go back, got '1' after 2

\tat org.apache.spark.api.python.BasePythonRunner$ReaderIterator.handlePythonException(PythonRunner.scala:645)
py4j.protocol.Py4JJavaError: An error occurred while calling o45.parquet.
"""

IN_JAVA = """An error occurred while calling o384.count.
: org.apache.spark.SparkException: [FAILED_READ_FILE.NO_HINT] Error while reading file y.csv.  SQLSTATE: KD001
\tat org.apache.spark.sql.errors.QueryExecutionErrors$.cannotReadFilesError(QueryExecutionErrors.scala:850)
Caused by: org.apache.spark.SparkException: [MALFORMED_RECORD] Malformed records are detected: [a,null].
\tat org.apache.spark.sql.catalyst.util.FailureSafeParser.parse(FailureSafeParser.scala:84)
Caused by: java.lang.NumberFormatException: For input string: "noon"
Caused by: java.lang.NumberFormatException: For input string: "noon"
"""

AT_THE_START = """WARNING: Using incubator modules: jdk.incubator.vector
Exception in thread "main" org.apache.spark.SparkException: Master must start with spark, k8s, or local
\tat org.apache.spark.deploy.SparkSubmit.error(SparkSubmit.scala:1047)
"""


@pytest.mark.parametrize(
    ("text", "line"),
    [
        (IN_A_WORKER, "part-1.parquet, row 3: arrival_ms must not go back, got '1' after 2"),
        (IN_JAVA, "Error while reading file y.csv.: Malformed records are detected: [a,null].: "
                  'For input string: "noon"'),
        ("tickwheel.extras.MissingExtra: reading it needs pyarrow\n", "reading it needs pyarrow"),
        ("Traceback (most recent call last):\nMemoryError\n", "out of memory"),
        (AT_THE_START, "Master must start with spark, k8s, or local"),
        ("[PATH_NOT_FOUND] Path does not exist: file:/x. SQLSTATE: 42K03", "Path does not exist: file:/x."),
        ("", ""),
    ],
    ids=[
        "a worker's Python", "a chain of Java", "a missing package", "no memory", "no session",
        "pyspark's own", "silence",
    ],
)
def test_the_line_that_says_it(text, line):
    """The innermost Python, since that is ours; else Java's causes, without classes and codes, each once."""
    assert why(text) == line
