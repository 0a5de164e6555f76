"""An attacker's suite: another user of the machine, a hostile server on another port, a hostile page in a browser.

Each attack must fail, and the module of an area has the attacks on it. `conftest.py` has what an attacker needs:

- `stranger`: a process of another user. `stranger.run(function, *arguments)` runs a function there, such as those in
  `intruder.py`. `lasting_stranger` is one for what a test leaves open, or runs beside itself.
- `open_folder`, `sticky_folder`: folders that the stranger can look into, or also write to, as to `/tmp`. In `shared`,
  the stranger may also exchange files of ours.
- `hostile`: a web server on another port of 127.0.0.1, which keeps every request it gets (`hostile.requests`,
  `hostile.loot`), and pages at it (`hostile.page`).
- `site`, `browser`, `victim`: a daemon of the user with its page, Chromium, and the user's tab, which has entered. The
  user then goes to a hostile page: `victim.goto(hostile.page(script))`.

Playwright's event loop belongs to the thread while the browser is there: an asynchronous test runs in another
(`@in_a_loop`).
"""
