"""`python -m sparkpipeline`: the console script `sparkpipeline`."""

from sparkpipeline.commands.main import main

if __name__ == "__main__":
    main()
