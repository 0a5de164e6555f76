r"""Replaces names in what goes into an exported file: home folders, users, hosts, and e-mail addresses.

    names = Anonymizer.of_this_machine()
    for body in bodies:                 # of all events, first, so that a name is known where it comes first
        names.learn(body)
    names.event(body), names.output(data), names.text(title)

The same name has the same placeholder in all of a file (`user-1`, `host-1`, `email-1`); a home folder becomes `~`. A
name is replaced where it stands alone if it is certainly one: the user and host that run tooltap; the owner of a home
folder in which an agent worked; a shell prompt (`alice@laptop:~$`), the output of `uname` or `env`, an author as Git
writes it. A name that is also a word (`COMMON`) is replaced only in a home folder and in `user@host`.
"""

from __future__ import annotations

import os
import pwd
import re
import socket
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple, Self

import msgspec

from tooltap.normalizers.catalog.registry import agents

HOME = "~"
MAX_NAMES = 200
"""Names of users that are learned, and names of hosts. A name that comes later stays, except in paths."""
MAX_ADDRESSES = 10_000
"""E-mail addresses that get a placeholder of their own. Later ones are replaced by the last placeholder."""
MAX_COUNTED = 20_000
"""Names that are counted."""
MIN_NAME = 3
"""Characters of the shortest name that is replaced where it stands alone."""
FOLDERS = frozenset({"cwd", "root"})
"""Keys of an event whose value is a folder in which an agent worked."""
KEPT = frozenset({"dialect", "kind", "outputId", "protocol", "provider"})
"""Keys of an event whose values are never names. No exported file shows an output id."""
COMMON = frozenset(
    word
    for words in (
        # accounts of systems, images and services
        "admin administrator ansible app apps build builder ci circleci cloud coder codespace container"
        " debian default deploy dev developer docker ec2 fedora git github gitlab gitpod guest jenkins linux"
        " local login mac mysql nginx nobody node none ops owner postgres private prod public redis root"
        " runner sandbox server service shared site sudo system test tester tests tmp ubuntu user username"
        " users vagrant vscode web work worker workspace www",
        # folders that a web site has below /home
        "about assets component components contact help home images index login main page pages products"
        " profile settings",
        # hosts
        "desktop gateway host laptop local localdomain localhost machine",
        # what agents and their vendors are called
        *agents(),
        "continue cursor happier mistral openai tooltap",
        # names of people that are words
        "art august bill chip crystal dale dan dash dean dot drew earl faith frank gene glen grace grant guy"
        " heath hope jack jade joy june king lance lee mark max may miles min pat penny ray rich rob rose ruby"
        " rust sandy sue victor wade will",
        # words of events, which must stay to be read: a test compares them with the schema
        "action actions agent alias answer answered answers at attach attachment attachments bash branch by"
        " bytes call cancelled canonical changes client code command commands completed content cost counter"
        " counts cwd data delete denied diff display done edit elicitation email ended eof error event events"
        " exit expired failed fetch file files format from full glob grep hook id image info input interrupted"
        " is items key kind language level line lineage lines list mark message mode model move name notice"
        " number open options order origin output outputs pad parent partial patch path pending permission"
        " plan policy preview process progress prompt provider query question questions read reason reasoning"
        " rename replaces replay request result results resumed resumes rewriter role rule running scope"
        " search seq session signal source started state status stderr stdout step stream string summary"
        " synthetic task text thinking title todo todos token tokens tool tools total true turn type unknown"
        " unparsed update updated uri url usage value version view warning write"
        " allowed artifact ask assistant async beside block blocks chunk cut dialect differs final first hidden"
        " length minutes models monitor numbers offset outcome parts protocol provisional quota silent skill"
        " width workflow",
    )
    for word in words.split()
)
"""Names that identify nobody or are words of texts, of code or of events."""

_ESCAPED = r"(?<=\\[bfnrt])|(?<=\\u[0-9a-fA-F]{4})|(?<=%[0-9A-Fa-f]{2})|(?<=[\[;]\dm)|(?<=[\[;]\d\dm)"
"""The place after an escape: of JSON in a string, of a URL, of a terminal's colour."""
_BEFORE = rf"(?:(?<![\w.+\\-])|{_ESCAPED})"
_ALONE = rf"(?:(?<![^\W_])|{_ESCAPED})"
_NAME = r"[\w-]{1,64}(?:\.[\w-]{1,64}){0,4}"
_OTHERS = r"(?!(?:Shared|Public|All Users|Default)(?![\w.-]))"
"""Folders beside those of users."""
_SEP = r"(?:\\{0,8}/|%2[Ff])"
_HOMES = re.compile(
    rf"{_BEFORE}(?:{_SEP}home{_SEP}|(?:/mnt)?(?:/[A-Za-z])?{_SEP}Users{_SEP}){_OTHERS}(?P<unix>{_NAME})"
    r"|\b[A-Za-z]:(?P<sep>\\{1,8}|/)Users(?P=sep)"
    rf"{_OTHERS}(?P<windows>[\w-]{{1,64}}(?:[. ][\w-]{{1,64}}){{0,4}}(?=(?P=sep))|{_NAME})"
    r"|(?<![\w.#~)}/-])/(?:var/)?root(?![\w.-])"
)
_EMAIL = r"[\w.+-]{1,64}@(?:[\w-]{1,63}\.){1,8}[A-Za-z]{2,24}"
_NOBODY = r"(?!(?:git|noreply|no-reply|donotreply)@|[\w.+-]{1,64}@(?:[\w-]{1,63}\.){0,4}example\.(?:com|org|net)\b)"
"""Addresses of nobody, and `git@github.com`."""
_EMAILS = re.compile(rf"{_BEFORE}{_NOBODY}{_EMAIL}\b(?!:)")
_COLOUR = r"(?:\x1b\[[\d;]{0,8}m){0,2}"
_PROMPT = re.compile(
    rf"{_BEFORE}(?!git@)(?P<user>[A-Za-z_][\w-]{{0,31}})@(?P<host>[A-Za-z0-9][\w.-]{{0,63}})(?={_COLOUR}:{_COLOUR}[~/])"
)
_UNAME = re.compile(r"\b(?:Linux|Darwin) (?P<host>[A-Za-z][\w.-]{2,63}) \d+\.\d+")
_ENV = re.compile(
    r"^(?:export )?(?:(?:USER|LOGNAME|USERNAME|SUDO_USER)=(?P<user>[\w.-]{3,64})"
    r"|(?:HOSTNAME|COMPUTERNAME)=(?P<host>[\w.-]{3,64}))$",
    re.MULTILINE,
)
_AUTHOR = re.compile(
    r"(?<![\w.'-])(?P<user>[^\W\d_][\w.'-]{0,40}(?: [^\W\d_][\w.'-]{0,40}){1,3}) <" + rf"{_NOBODY}{_EMAIL}>"
)
_LEARNED = (_PROMPT, _UNAME, _ENV, _AUTHOR)
_SUSPECT = re.compile(r"@|Linux |Darwin |USER|LOGNAME|HOSTNAME|COMPUTERNAME")
_BOUNDARY = re.compile(r"[\W_]+")


class ReplacedName(NamedTuple):
    placeholder: str
    """`~`, or such as `user-1`."""
    name: str
    times: int


class Anonymizer:
    """Replaces the names of users and hosts that it is given or learns, home folders, and e-mail addresses."""

    def __init__(self, users: Iterable[str] = (), hosts: Iterable[str] = (), home: str = "") -> None:
        """`users`: the names of one person. `hosts`: those of one machine. `home`: the person's home folder."""
        self._placeholders: dict[str, dict[str, str]] = {"user": {}, "host": {}, "email": {}}
        """Kind -> name in lower case -> placeholder."""
        self._counts: Counter[tuple[str, str]] = Counter()
        """Placeholder and name, as they were first found."""
        self._pattern: re.Pattern[str] | None = None
        self._is_new = True
        self._home = None if home.count("/") < 2 else re.compile(rf"(?<![\w.-]){re.escape(home)}(?![\w-])")
        self._learn_one("user", users)
        self._learn_one("host", hosts)

    @classmethod
    def of_this_machine(cls) -> Self:
        """Know the user who runs this process, by account and by full name, and the machine."""
        home, host = os.path.expanduser("~"), socket.gethostname()
        try:
            account = pwd.getpwuid(os.getuid())
            users = [account.pw_name, account.pw_gecos.split(",")[0].strip()]
        except KeyError:  # a container's user
            users = [os.environ.get("USER", "")]
        return cls(users, [host, host.partition(".")[0]], home)

    @property
    def replaced(self) -> list[ReplacedName]:
        """Each name that was replaced, and how often: home folders first, then by placeholder."""
        found = [ReplacedName(placeholder, name, times) for (placeholder, name), times in self._counts.items()]
        return sorted(found, key=lambda one: (one.placeholder != HOME, *_numbered(one.placeholder), one.name))

    def remark(self) -> str:
        """Return a sentence for the file."""
        if not self._counts:
            return "No name of a user or host and no e-mail address was found to be replaced."
        return "Home folders, names of users and hosts, and e-mail addresses are replaced."

    def learn(self, body: bytes) -> None:
        """Learn the names in an event."""
        for key, text in _strings(msgspec.json.decode(body)):
            if key in FOLDERS and (home := _HOMES.match(text)) is not None and (name := _owner(home)) is not None:
                self._learn_one("user", [name])
            if _SUSPECT.search(text) is None:
                continue
            for pattern in _LEARNED:
                for match in pattern.finditer(text):
                    for kind, name in match.groupdict().items():
                        if name is not None:
                            self._learn_one(kind, [name])

    def event(self, body: bytes) -> bytes:
        """Return the event without names; the same object if it has none. JSON escapes are decoded first."""
        value = msgspec.json.decode(body)
        replaced = self._value(value)
        return body if replaced == value else msgspec.json.encode(replaced)

    def output(self, data: bytes) -> bytes:
        """Return an output body without names. Binary data is returned as it is."""
        try:
            text = data.decode()
        except UnicodeDecodeError:
            return data
        return self.text(text).encode()

    def text(self, text: str) -> str:
        if self._home is not None:
            text = self._home.sub(lambda match: self._counted(HOME, match.group()), text)
        text = _HOMES.sub(lambda match: self._counted(HOME, match.group()), text)
        if "@" in text:
            text = _EMAILS.sub(lambda match: self._counted(self._email(match.group()), match.group()), text)
        pattern = self._known()
        return text if pattern is None else pattern.sub(self._named, text)

    def _value(self, value: Any) -> Any:
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, list):
            return [self._value(item) for item in value]
        if isinstance(value, dict):
            replaced: dict[str, Any] = {}
            for key, item in value.items():
                name = self.text(key)
                while name in replaced:  # the same file in the homes of two users
                    name += "\u2019"
                replaced[name] = item if key in KEPT else self._value(item)
            return replaced
        return value

    def _learn_one(self, kind: str, names: Iterable[str]) -> None:
        """Learn the names of one user or one host; those that are not known get one placeholder."""
        known = self._placeholders[kind]
        new = [name for name in map(str.lower, names) if name not in known and re.search(r"[^\W\d_]", name)]
        if new and len(known) < MAX_NAMES:
            known.update(dict.fromkeys(new, f"{kind}-{len(set(known.values())) + 1}"))
            self._is_new = True

    def _known(self) -> re.Pattern[str] | None:
        """Return the pattern of `user@host` and of names that stand alone."""
        if self._is_new:
            users, hosts = self._placeholders["user"], self._placeholders["host"]
            parts = []
            if users and hosts:
                parts.append(rf"(?P<login>{_either(users)})@(?P<at>{_either(hosts)})")
            for kind, names in (("user", users), ("host", hosts)):
                if alone := [name for name in names if len(name) >= MIN_NAME and name not in COMMON]:
                    parts.append(rf"(?P<{kind}>{_either(alone)})")
            self._pattern = None
            if parts:
                self._pattern = re.compile(rf"{_ALONE}(?:{'|'.join(parts)})(?![^\W_])", re.IGNORECASE)
            self._is_new = False
        return self._pattern

    def _named(self, match: re.Match[str]) -> str:
        if (login := match.groupdict().get("login")) is not None:
            return f"{self._replaced('user', login)}@{self._replaced('host', match['at'])}"
        return self._replaced(str(match.lastgroup), match.group())

    def _replaced(self, kind: str, name: str) -> str:
        known = self._placeholders[kind]
        placeholder = known.get(name.lower())
        if placeholder is None:  # with other separators than it was learned with
            same = _BOUNDARY.sub("-", name.lower())
            found = (its for one, its in known.items() if _BOUNDARY.sub("-", one) == same)
            placeholder = next(found, f"{kind}-1")  # letters that are the same only to a search that ignores case
        return self._counted(placeholder, name)

    def _email(self, address: str) -> str:
        known = self._placeholders["email"]
        if address.lower() not in known and len(known) < MAX_ADDRESSES:
            known[address.lower()] = f"email-{len(known) + 1}"
        return known.get(address.lower(), f"email-{MAX_ADDRESSES}")

    def _counted(self, placeholder: str, name: str) -> str:
        key = (placeholder, name)
        if key in self._counts or len(self._counts) < MAX_COUNTED:
            self._counts[key] += 1
        return placeholder


def _owner(home: re.Match[str]) -> str | None:
    name: str | None = home["unix"] or home["windows"]
    return name


def _either(names: Iterable[str]) -> str:
    """Return a pattern of the names, longest first. What separates their parts may be any character: Claude Code turns
    `/home/alice.smith` into `-home-alice-smith`."""
    parts = [
        [part for part in _BOUNDARY.split(name) if part] for name in sorted(names, key=lambda one: (-len(one), one))
    ]
    return "|".join(r"[\W_]{1,3}".join(map(re.escape, its)) for its in parts)


def _numbered(placeholder: str) -> tuple[str, int]:
    kind, _, number = placeholder.partition("-")
    return kind, int(number or 0)


def _strings(value: Any, key: str = "") -> Iterator[tuple[str, str]]:
    """Yield each string with the key that it is below."""
    if isinstance(value, str):
        yield key, value
    elif isinstance(value, list):
        for item in value:
            yield from _strings(item, key)
    elif isinstance(value, dict):
        for name, item in value.items():
            yield "", name
            yield from _strings(item, name)
