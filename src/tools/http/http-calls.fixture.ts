import { AppError } from '../../contracts/errors.ts';
import { callContext } from '../../testing/call-context.ts';
import type { CallContext, ToolError, ToolOutcome } from '../tool.ts';
import { HttpTool, type HttpToolOptions } from './http-tool.ts';
import { type Handler, startServer, type TestServer } from './test-server.fixture.ts';

const opened: { close(): Promise<void> }[] = [];

/** Closes the servers and tools of a test; for `afterEach`. */
export async function closeAll(): Promise<void> {
  for (const item of opened.splice(0).reverse()) await item.close();
}

export async function serve(handler: Handler, tls?: { key: string; cert: string }): Promise<TestServer> {
  const server = await startServer(handler, tls);
  opened.push(server);
  return server;
}

export function httpTool(options: HttpToolOptions = {}): HttpTool {
  const tool = new HttpTool(options);
  opened.push(tool);
  return tool;
}

type Result = Record<string, unknown> & { headers: Record<string, string> };

export function resultOf(outcome: ToolOutcome): Result {
  return outcome.result as Result;
}

export function errorOf(outcome: ToolOutcome): ToolError {
  if (outcome.status !== 'error')
    throw new AppError('INTERNAL', `expected an error, got ${JSON.stringify(outcome.result)}`);
  return outcome.error;
}

export function get(
  url: string,
  fields: Record<string, unknown> = {},
  context: Partial<CallContext> = {},
): Promise<ToolOutcome> {
  return httpTool().call({ url, ...fields }, callContext(context));
}

/** Answers with the request, as JSON. */
export const echo: Handler = (request, response) => {
  response.setHeader('content-type', 'application/json');
  response.end(JSON.stringify(request));
};
