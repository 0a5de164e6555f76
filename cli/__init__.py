"""The `tooltap` command: options, help texts and printing. What a command does lives in the packages below `cli`.

`main` knows every folder; `tap`, `read`, `check`, `manage` and `schema` hold the subcommands and know `common`, but not
each other.
"""
