"""`python -m producer`: the console script `zkproducer`."""

from producer.console import main

if __name__ == "__main__":
    main(prog_name="zkproducer")
