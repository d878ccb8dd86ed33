"""`python -m zkconsumer`: the console script `zkconsumer`, whose commands are listed in zkconsumer/commands/cli.py."""

from zkconsumer.commands.main import main

if __name__ == "__main__":
    main()
