"""`python -m tooltap.cli`."""

from tooltap.cli.main import main

if __name__ == "__main__":  # a process that the daemon starts imports this module, too
    main()
