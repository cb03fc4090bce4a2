"""`python -m io_bench`, which is how torchrun starts the agent."""

from io_bench.cli.main import main

if __name__ == "__main__":
    main()
