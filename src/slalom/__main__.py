"""`python -m slalom` is the command line."""

from slalom.cli import main

if __name__ == "__main__":
    main()
