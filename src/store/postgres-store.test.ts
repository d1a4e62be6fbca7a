import { createTestDatabase } from '../../test/setup/database.ts';
import { storeSuite } from '../testing/store.suite.ts';
import { PostgresStore } from './postgres-store.ts';

storeSuite('PostgresStore', {
  async open() {
    const database = await createTestDatabase();
    const [first, second] = await Promise.all([
      PostgresStore.open({ url: database.url }),
      PostgresStore.open({ url: database.url }),
    ]);
    return {
      first,
      second,
      async close() {
        await Promise.all([first.close(), second.close()]);
        await database.drop();
      },
    };
  },
});
