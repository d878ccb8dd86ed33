"""`python -m zkconsumer`: the console script `zkconsumer`."""

from zkconsumer.commands.main import main

if __name__ == "__main__":
    main()
