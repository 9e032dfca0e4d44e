"""How far Spark is, for a progress bar."""
from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, suppress
from threading import Event
from typing import TYPE_CHECKING

from tickwheel.extras import require
from tickwheel.meanwhile import meanwhile

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

INTERVAL_S = 0.2


def job_progress(spark: SparkSession, show: Callable[[float], object]) -> AbstractContextManager[None]:
    """While the block runs, `show` gets the share of tasks that are done, of all jobs begun in it.

    Never goes back. It asks the status tracker of a session that is not Spark Connect's, as
    those of `local_session` are.
    """
    lost = require("py4j.protocol", "a progress bar", extra="spark").Py4JError
    tracker = spark.sparkContext.statusTracker()

    def follow(over: Event) -> None:
        stages: dict[int, tuple[int, int]] = {}     # tasks done, tasks
        shown = 0.0
        with suppress(lost, OSError):               # the block hears of it too
            while not over.wait(INTERVAL_S):
                jobs = [tracker.getJobInfo(job) for job in tracker.getActiveJobsIds()]
                for number in {stage for job in jobs if job for stage in job.stageIds} | stages.keys():
                    stage = tracker.getStageInfo(number)
                    if stage:
                        stages[number] = (stage.numCompletedTasks, stage.numTasks)
                done = sum(done for done, _ in stages.values())
                tasks = sum(tasks for _, tasks in stages.values())
                shown = max(shown, done / max(tasks, 1))
                show(shown)

    return meanwhile(follow, "spark-progress")
