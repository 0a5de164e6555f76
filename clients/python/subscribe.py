"""Print every shell command of every agent on the machine, as it is run."""

import sys

from tooltap.client import Gap, subscribe
from tooltap.protocol.events import ToolCall

for event in subscribe(after="start", follow="--no-follow" not in sys.argv):
    match event:
        case ToolCall(name="Bash"):
            print(event.provider, event.input.get("command"))
        case Gap():
            print(f"events {event.from_} to {event.to} are gone")
