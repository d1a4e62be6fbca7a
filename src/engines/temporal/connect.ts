import { readFile } from 'node:fs/promises';
import { Connection, type TLSConfig } from '@temporalio/client';
import { AppError } from '../../exports/engine.ts';
import type { TemporalSettings } from './options.ts';

export interface Place {
  readonly address: string;
  readonly tls?: TLSConfig | true;
  readonly apiKey?: string;
}

/** Where the server is and how it is spoken to: the same for those who start runs and for workers. */
export async function placeOf({ address, tls, apiKey }: TemporalSettings): Promise<Place> {
  const secure = tls === true ? true : tls === false ? undefined : await readTls(tls);
  return {
    address,
    // An API key is never sent in clear.
    ...(secure !== undefined ? { tls: secure } : apiKey === undefined ? {} : { tls: true as const }),
    ...(apiKey === undefined ? {} : { apiKey }),
  };
}

async function readTls(tls: Exclude<TemporalSettings['tls'], boolean>): Promise<TLSConfig> {
  const { caFile, certFile, keyFile, serverName } = tls;
  if ((certFile === undefined) !== (keyFile === undefined)) {
    throw new AppError('CONFIG_INVALID', 'temporal.tls needs certFile and keyFile together.');
  }
  const read = async (file: string): Promise<Buffer> => {
    try {
      return await readFile(file);
    } catch (error) {
      throw new AppError('CONFIG_INVALID', `temporal.tls: ${file} cannot be read.`, { file }, { cause: error });
    }
  };
  return {
    ...(serverName === undefined ? {} : { serverNameOverride: serverName }),
    ...(caFile === undefined ? {} : { serverRootCACertificate: await read(caFile) }),
    ...(certFile === undefined || keyFile === undefined
      ? {}
      : { clientCertPair: { crt: await read(certFile), key: await read(keyFile) } }),
  };
}

/** A connection of those who start and signal; it is made on first use, and made again when it was lost. */
export async function clientConnection(settings: TemporalSettings): Promise<Connection> {
  return Connection.lazy(await placeOf(settings));
}
