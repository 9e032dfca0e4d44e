"""What is put into Spark's state grows with a batch's rows, and is gone when nothing is pending."""

from microbatches import DAY, Folder, at, playing

from tickwheel.spark.streaming import detect_idle

PENDING, FEW = 20_000, 100


def bytes_put(query):
    """By batch, the bytes put into the state, whatever Spark then makes of them."""
    metric = "rocksdbTotalBytesWritten"
    return {
        progress["batchId"]: progress["stateOperators"][0]["customMetrics"][metric]
        for progress in query.recentProgress
        if progress["stateOperators"]
    }


def test_state_written_grows_with_the_batch_not_with_what_is_pending(spark, tmp_path):
    """A hundred rows a batch cost the same bytes with 20,000 clients pending as with none."""
    written = {}
    for pending in (0, PENDING):
        folder = Folder(tmp_path / f"{pending}", "client string, time timestamp")
        frame = detect_idle(folder.stream(spark, "time", 1), "client", "time", DAY, n_shards=2)
        with playing(frame) as played:
            folder.put(*({"client": f"client {n}", "time": at(100)} for n in range(pending)))
            assert played.rows() == []
            for batch in range(1, 6):
                clients = (f"client {batch * FEW + n}" for n in range(FEW))
                folder.put(*({"client": client, "time": at(100 + batch)} for client in clients))
            assert played.rows() == []
            sizes = bytes_put(played.query)
            written[pending] = max(size for batch, size in sizes.items() if batch > 1)
            first = sizes[0]
    assert first > PENDING * 16
    assert written[PENDING] < 1.5 * written[0] < first / 10
