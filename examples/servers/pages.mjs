// A small source of pages for pagination.yaml: 25 items, 10 to a page, and every second answer is "try again".
//   node examples/servers/pages.mjs [PORT]
import { createServer } from 'node:http';

const items = Array.from({ length: 25 }, (_, i) => `item-${i + 1}`);
let asked = 0;

const server = createServer((request, response) => {
  const { searchParams } = new URL(request.url, 'http://127.0.0.1');
  const page = Number(searchParams.get('page') ?? 1);
  asked += 1;
  const busy = asked % 2 === 0;
  const next = page * 10 < items.length ? page + 1 : null;
  response.writeHead(busy ? 503 : 200, { 'content-type': 'application/json' });
  response.end(JSON.stringify(busy ? { error: 'busy' } : { items: items.slice((page - 1) * 10, page * 10), next }));
});
server.listen(Number(process.argv[2] ?? 4010), '127.0.0.1', () => {
  console.log(`http://127.0.0.1:${server.address().port}/items`);
});
