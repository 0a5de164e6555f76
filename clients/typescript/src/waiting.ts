// When to try again to reach a daemon that is away.

const FIRST = 100;
const MOST = 2_000;

/** The milliseconds to sleep before each new attempt, for so many in all. */
export function* pauses(limit: number): Generator<number, void> {
  const end = performance.now() + limit;
  for (let pause = FIRST; ; pause = Math.min(pause * 2, MOST)) {
    const left = end - performance.now();
    if (left <= 0) {
      return;
    }
    yield Math.min(pause, left);
  }
}

/** Throws the signal's reason. */
export function sleep(milliseconds: number, signal: AbortSignal | undefined): Promise<void> {
  signal?.throwIfAborted();
  return new Promise((resolve, reject) => {
    const stop = () => {
      clearTimeout(timer);
      reject(signal?.reason);
    };
    const timer = setTimeout(() => {
      signal?.removeEventListener("abort", stop);
      resolve();
    }, milliseconds);
    signal?.addEventListener("abort", stop, { once: true });
  });
}
