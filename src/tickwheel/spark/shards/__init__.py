"""What a shard keeps and decides, without Spark."""
