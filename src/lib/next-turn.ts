let coming: Promise<void> | undefined;

/** The next turn of the event loop. Everybody who waits for it shares it. */
export function nextTurn(): Promise<void> {
  coming ??= new Promise((resolve) => {
    setImmediate(() => {
      coming = undefined;
      resolve();
    });
  });
  return coming;
}
