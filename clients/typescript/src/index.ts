export * from "./client.js";
export { ConnectError, DaemonError, DisconnectedError, socketPath } from "./connection.js";
export * from "./schema.js";
