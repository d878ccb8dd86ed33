"""spark.read and readStream of format kafka08."""
