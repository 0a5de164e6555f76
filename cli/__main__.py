"""`python -m tooltap.cli`."""

from tooltap.cli.main import main

main()
