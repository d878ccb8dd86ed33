"""df.write and writeStream of format kafka08."""
