export { type EmbeddedServer, openEmbedded } from '../store/embedded/open-embedded.ts';
export { EventIdRegistry } from '../store/event-id-registry.ts';
export { PostgresStore, type PostgresStoreOptions } from '../store/postgres-store.ts';
export { type EventFacts, stampEvent } from '../store/stamp-event.ts';
export type { AppendOptions, AppendResult, EventQuery, NewRun, Store, WindowQuery } from '../store/store.ts';
export { type ChainReport, verifyChain } from '../store/verify-chain.ts';
