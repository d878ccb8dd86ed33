"""`python -m mirrormaker`: the console script `mirrormaker`."""

from mirrormaker.commands.main import main

if __name__ == "__main__":
    main()
