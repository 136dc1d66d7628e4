"""Apache Spark: sessions that know the format `turnabout`, its sources, and its sink."""
