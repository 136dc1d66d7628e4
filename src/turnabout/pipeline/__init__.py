"""The data pipeline: queues and their history in Apache Spark, as `format("turnabout")`."""
