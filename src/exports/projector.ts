export { createProjector, type Projector, type ProjectorOptions } from '../projector/projector.ts';
export { readSnapshot } from '../projector/read-snapshot.ts';
export { SnapshotProjector } from '../projector/snapshot-projector.ts';
