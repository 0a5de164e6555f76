"""The `tooltap` command: options, help texts and printing. What a command does is in `daemon` and below.

`main` is the entry point, and `subcommands` lists the commands. They are in `tap`, `read`, `check`, `manage` and
`schema`, which know `common`, but not each other.
"""
