"""One real Spark for all tests of this folder: local, two cores. Without pyspark or Java they fail."""
import os
import sys

import pytest
from pyspark.sql import SparkSession

SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.driver.memory": "1g",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    # A test's JVM does not live long enough for the second compiler.
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.streaming.stateStore.providerClass":
        "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider",
}


@pytest.fixture(scope="session")
def spark():
    """The session, with the state store that streams need."""
    os.environ["PYSPARK_PYTHON"] = sys.executable
    builder = SparkSession.builder.master("local[2]").appName("tickwheel-tests")
    session = builder.config(map=SETTINGS).getOrCreate()
    session.sparkContext.setLogLevel("OFF")
    yield session
    session.stop()
