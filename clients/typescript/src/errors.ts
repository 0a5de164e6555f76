// The errors of the client.

/** No daemon can be reached; the message is one sentence for the user. */
export class ConnectError extends Error {
  override name = "ConnectError";
}

/** The daemon has closed the connection. */
export class DisconnectedError extends Error {
  override name = "DisconnectedError";

  constructor() {
    super("the daemon has closed the connection");
  }
}

/** The daemon refused something; `code` is one of the error codes of the schema. */
export class DaemonError extends Error {
  override name = "DaemonError";

  constructor(
    readonly code: string,
    message: string,
  ) {
    super(message);
  }
}
