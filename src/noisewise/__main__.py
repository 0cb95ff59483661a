"""`python -m noisewise`: the command line, where no script stands in the path."""

from noisewise.cli.main import main

if __name__ == "__main__":
    main()
