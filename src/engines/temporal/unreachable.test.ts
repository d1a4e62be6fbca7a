import { expect, test } from 'vitest';
import { unreachable } from './unreachable.ts';

const settings = { address: 'temporal.example.org:7233', namespace: 'prod' } as Parameters<typeof unreachable>[0];

test.each([
  [
    'tonic::transport::Error(Transport, ConnectError(ConnectError("tcp connect error", 127.0.0.1:1, Os { code: 111, kind: ConnectionRefused, message: "Connection refused" })))',
    'nothing answers at this address',
  ],
  [
    'tonic::transport::Error(Transport, ConnectError(ConnectError("dns error", Custom { kind: Uncategorized, error: "failed to lookup address information: Name or service not known" })))',
    'the name of the server cannot be resolved',
  ],
  [
    '4 DEADLINE_EXCEEDED: Deadline exceeded after 0.001s,name resolution: 0.001s,waiting for metadata filters',
    'it does not answer in time',
  ],
  [
    '14 UNAVAILABLE: Name resolution failed for target dns:nosuch.invalid:7233',
    'the name of the server cannot be resolved',
  ],
  ['Namespace prod is not found.', 'the server has no such namespace'],
  ['7 PERMISSION_DENIED: Request unauthorized.', 'the server refuses the credentials'],
  [
    '14 UNAVAILABLE: self-signed certificate in certificate chain',
    'no secure connection can be made; check the settings of tls',
  ],
  ['the moon is full', 'the moon is full'],
])('what a client says is told in plain words, with the address and what to do: %s', (said, meaning) => {
  const cause = new Error(said);
  const error = unreachable(settings, cause);
  expect(error).toMatchObject({
    code: 'ENGINE_UNAVAILABLE',
    message: `Temporal at temporal.example.org:7233, namespace 'prod', cannot be used: ${meaning}.`,
    details: { address: settings.address, next: expect.stringContaining('TEMPORAL_ADDRESS') },
    cause,
  });
});
