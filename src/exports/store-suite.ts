export { type StoreFactory, storeSuite } from '../testing/store.suite.ts';
