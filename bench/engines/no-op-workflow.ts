import { proxyActivities } from '@temporalio/workflow';

const { noop } = proxyActivities<{ noop(n: number): Promise<number> }>({ startToCloseTimeout: '1 minute' });

/** What somebody would write by hand: as many activities, so many at a time. */
export async function noOps(count: number, lanes: number): Promise<number> {
  let next = 0;
  const lane = async (): Promise<void> => {
    while (next < count) {
      next += 1;
      await noop(next);
    }
  };
  await Promise.all(Array.from({ length: lanes }, lane));
  return next;
}
