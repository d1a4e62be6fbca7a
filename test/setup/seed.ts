const given = process.env['TEST_SEED'];

/**
 * The seed of every random test. It is fixed, so that a change and not chance turns a test red; TEST_SEED=7 takes
 * another one, TEST_SEED=random a new one each time, which a failure prints.
 */
export const testSeed = given === 'random' ? Date.now() % 1_000_000 : Number(given ?? 20_260_211);
