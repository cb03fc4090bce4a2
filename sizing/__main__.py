"""The command line without its script: `python -m sizing` asks the project of this folder."""

from sizing.cli.main import main

if __name__ == "__main__":
    main()
