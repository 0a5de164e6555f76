export * from "./client.js";
export { socketPath, type PlaceOptions } from "./discovery.js";
export * from "./errors.js";
export * from "./guards.js";
export * from "./schema.js";
export { EventStream, type StreamOptions } from "./stream.js";
